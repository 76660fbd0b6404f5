"""Situations as users meet them, each with the verdict and the reason that an expert would give.

One module per family, and in `independent/` scenarios by authors who had not seen the checks. `./dev gauntlet` draws
every scenario fifty times and prints how often the verdict was right; `test_gauntlet.py` is the short form.
"""
