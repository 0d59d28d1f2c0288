"""Sequence to sequence with attention (Bahdanau et al. 2014, Luong et al. 2015).

CoVe (McCann et al. 2017) is its encoder in use: it needs no code of its own.
"""
