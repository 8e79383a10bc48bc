"""Attention and models of other libraries, run for ridgeline on its own inputs and by its protocol.

ridgeline starts this folder as a program and talks to it in JSON lines; docs/peers.md has the protocol. Nothing here is
imported before a row asks for it, so that a missing library is an answer and not a crash.
"""
