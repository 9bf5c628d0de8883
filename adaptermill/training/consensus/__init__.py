"""Consensus ADMM over LoRA adapters: nodes with examples of their own agree on one adapter.

The algorithm is `adaptermill.consensus`, which knows vectors alone; here a vector is the B matrices
of an adapter whose A is frozen, and an objective is DPO or NLL over a node's examples.
"""
