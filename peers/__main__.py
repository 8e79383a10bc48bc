"""python3 peers: answers ridgeline's requests; python3 peers --list: prints all implementations."""
import pathlib
import sys

sys.path[0] = str(pathlib.Path(__file__).resolve().parent.parent)

from peers import registry, worker  # noqa: E402  (found by the line above)

if __name__ == "__main__":
    if sys.argv[1:] == ["--list"]:
        print("\n".join([*registry.IMPLEMENTATIONS, *registry.MODELS, *registry.TEXTS]))
        sys.exit(0)
    sys.exit(worker.main())
