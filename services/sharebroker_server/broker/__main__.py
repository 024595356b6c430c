"""`python -m sharebroker_server.broker`: the same as `sharebroker serve`."""

import gc


def main() -> None:
    """Runs `serve` with the arguments of the process."""
    gc.disable()  # the imports create no garbage, and each collection would visit all that they create
    import typer

    from sharebroker.cli.output import replace_closed_streams
    from sharebroker_server.broker.commands.serve import serve

    gc.enable()
    replace_closed_streams()
    try:
        typer.run(serve)
    finally:
        gc.freeze()  # skips the collections at exit, which take a fifth of a second


if __name__ == "__main__":
    main()
