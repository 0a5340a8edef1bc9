"""Weights, activations and caches with fewer bits: one scheme or technique a module, plain PyTorch.

Everything here computes in floating point what the integers stand for, so that its error can be measured;
`packed` and `small_storage` are the ones that really store few bytes.
"""
