"""pgrepl at work on this machine, on throwaway clusters."""

from pgrepl.demo.run import run_demo

__all__ = ["run_demo"]
