"""The live page of runs, which `curro watch` serves; `curro.runs.report` renders it.

Tested over its socket, and in Chromium (tests/browser).
"""
