"""The models: each a functional on measures, a few lines of mathematics and what they need.

A model knows the idea (measure, space, functional), and the algorithms that find its best point;
no algorithm knows a model.
"""
