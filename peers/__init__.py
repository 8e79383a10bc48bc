"""Attention and models of other libraries, run for ridgeline on its inputs and by its protocol.

ridgeline starts this folder as a program and communicates with it in JSON lines; docs/peers.md describes the protocol.
Libraries are imported only when a row needs them, so that a missing one is an answer and not a crash.
"""
