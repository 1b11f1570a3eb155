"""pgrepl at work on this machine, on throwaway clusters."""

from pgrepl.demo.kafka import run_kafka_demo
from pgrepl.demo.run import run_demo

__all__ = ["run_demo", "run_kafka_demo"]
