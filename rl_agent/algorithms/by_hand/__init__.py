"""Gradients that are written out, for small networks on a CPU: a file for each algorithm that has one.

``rl_agent/algorithms/X.py`` has the loss as the paper writes it, for autograd; ``by_hand/X.py`` its derivatives by the
outputs of the networks, whose own backward passes do the rest (``rl_agent/networks``). The tests hold the two together.
"""
