# SPDX-License-Identifier: MIT OR Apache-2.0
"""Reads names separated by commas from a file and prints them folded by ClusterShell."""

import sys

from ClusterShell.NodeSet import NodeSet

with open(sys.argv[1], encoding="utf-8") as file:
    print(NodeSet.fromlist(file.read().split(",")))
