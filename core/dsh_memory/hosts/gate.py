"""Who may call what over HTTP: the token a request presents, and the right that it needs."""

from __future__ import annotations

from starlette.requests import Request

from dsh_memory.hosts.fence import Authority
from dsh_memory.tokens import Token, TokenStore, TokenStoreError

#: Names under which clients put keys into addresses, where proxies and histories keep them.
_KEY_PARAMETERS = frozenset(
    {"api_key", "apikey", "api-key", "key", "token", "access_token", "x-api-key", "authorization"}
)


class Refused(Exception):
    """A request that may not go on: HTTP status, stable reason, and a sentence that quotes nothing of it."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.message = message


class Gate:
    """The token check of one server; `open_reads` lets local callers read without a token."""

    def __init__(self, tokens: TokenStore, *, open_reads: bool = False) -> None:
        self._tokens = tokens
        self._open_reads = open_reads

    def admit(self, request: Request, right: str) -> Token | None:
        """The token of a request that may use `right`; None for an open read. Raises Refused.

        Where the access log looks, `request.state.token_id` is set.
        """
        presented = _presented(request)
        if presented is None:
            # guard: open-reads-loopback (a proxy on this machine forwards the name that its client used)
            if self._open_reads and right == "memory:read" and _is_local(request):
                return None
            raise Refused(401, "unauthorized", "a token is needed: dsh-memory token create")
        try:
            token = self._tokens.find(presented)
        except TokenStoreError as error:
            raise Refused(503, "token-store-unavailable", "the token store cannot be read") from error
        if token is None:
            raise Refused(403, "forbidden", "the token is unknown, revoked or expired")
        request.state.token_id = token.id
        # guard: token-right
        if not token.allows(right):
            raise Refused(403, right.replace(":", "_") + "_scope_required", f"the token lacks {right}")
        return token

    def admit_to_all(self, request: Request, right: str) -> Token | None:
        """As `admit`, for a method without filters: a token bound to a part of the memory is refused."""
        token = self.admit(request, right)
        if token is None:
            return None
        # guard: token-restricted
        if token.restricted or (token.temporary_agent and right != "memory:read"):
            raise Refused(403, "unrestricted_token_required", "the token is bound to a part of the memory")
        return token


def _presented(request: Request) -> str | None:
    # guard: query-key
    if any(name.lower() in _KEY_PARAMETERS for name in request.query_params):
        raise Refused(
            401, "unauthorized", "a key in the address is refused: send X-API-Key or Authorization: Bearer"
        )
    key = request.headers.get("x-api-key")
    if key is not None:
        return key.strip()
    scheme, _, credentials = request.headers.get("authorization", "").partition(" ")
    return credentials.strip() if scheme.lower() == "bearer" else None


def _is_local(request: Request) -> bool:
    authority = Authority.parse(request.headers.get("host", ""))
    return authority is not None and authority.is_loopback
