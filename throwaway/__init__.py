"""Throwaway PostgreSQL clusters and Kafka brokers for tests, the demo and benchmarks.

Real servers in temporary folders, on free ports, never as root, removed when their owner ends.
"""

from pgrepl.throwaway.binaries import ServerBinaries, find_binaries
from pgrepl.throwaway.broker import Broker
from pgrepl.throwaway.cluster import Cluster

__all__ = ["Broker", "Cluster", "ServerBinaries", "find_binaries"]
