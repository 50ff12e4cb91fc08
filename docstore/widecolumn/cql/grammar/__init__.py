"""The grammar of CQL, as far as it is served: one function for each rule, over a `scanner`.

`terms` (names, literals, markers, calls), `select`, `modifications`, `definitions`, `describe`. Words are keywords only
where the grammar expects them. A function reads its rule from where the scanner stands and leaves it behind the rule's
last token; a text that does not fit is a syntax error at the token that no rule expects.
"""
