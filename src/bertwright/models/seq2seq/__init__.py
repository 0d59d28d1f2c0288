"""Sequence to sequence with attention (Bahdanau et al. 2014, Luong et al. 2015).

CoVe (McCann et al. 2017) is a use of its encoder and needs no other code.
"""
