"""The HTTP session of OpenTelemetry's OTLP/HTTP exporters:

bounded responses, and no secrets in error texts.
"""

from __future__ import annotations

from typing import Any, Final

import requests
from typing_extensions import override

_MAX_RESPONSE: Final = 64 * 1024


class ExportSession(requests.Session):
    """Session for an exporter, which retries failed requests itself.

    Headers and the query of the URL may contain secrets. So redirects fail, and errors name only their cause:
    the texts of requests contain the URL.
    """

    @override
    def send(self, request: requests.PreparedRequest, **options: Any) -> requests.Response:
        try:
            response = super().send(request, **(options | {"stream": True}))
            with response:
                response.raw.read(_MAX_RESPONSE)
        except requests.RequestException as error:
            raise type(error)(_cause(error)) from None
        if response.is_redirect:  # the exporter counts a status below 400 as success
            raise requests.TooManyRedirects(f"HTTP status {response.status_code}: redirects are not followed")
        return response


def _cause(error: BaseException) -> str:
    """Returns the name of the error, and the text of the system error that caused it."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.strerror:
            return f"{type(error).__name__}: {cause.strerror}"
        cause = cause.__cause__ or cause.__context__
    return type(error).__name__
