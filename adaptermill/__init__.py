"""Adaptermill: from what agents did to LoRA adapters that people can serve and trust."""

__version__ = "0.1.0"
