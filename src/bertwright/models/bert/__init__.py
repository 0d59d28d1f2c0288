"""BERT (Devlin et al. 2019), and the left-to-right BERT of its table 5."""
