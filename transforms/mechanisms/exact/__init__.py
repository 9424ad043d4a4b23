"""The machinery that draws exactly: bits, real numbers as balls, noise, races, sequences and sets.

Nothing here knows a mechanism: integers, rationals and bits in, decisions out. A circle between these files, or an
import of a mechanism, is an error that a test finds.
"""
