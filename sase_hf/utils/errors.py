"""How this package words an error: what is wrong, then the way out."""


def refusal(what: str, way_out: str, error_class: type[Exception] = ValueError) -> Exception:
    """Return the error to raise for a value that is refused.

    `what` names the thing and what came; `way_out` says what is allowed, or what to do.
    """
    return error_class(f"{what}; {way_out}")
