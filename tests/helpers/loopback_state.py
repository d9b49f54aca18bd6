"""What the Hub of the tests holds: repositories with their commits, and large files."""

import hashlib
from dataclasses import dataclass, field
from threading import RLock
from typing import Any

OWNER = "someone"
TOKEN = "hf_" + "write" * 6
READ_TOKEN = "hf_" + "read0" * 6
DROP = 0  # instead of a status: break the connection

Files = dict[str, bytes]


@dataclass
class Repository:
    """Commits by id, each with all its files, and the names that point to them."""

    private: bool = False
    commits: dict[str, Files] = field(default_factory=dict)
    messages: dict[str, str] = field(default_factory=dict)
    branches: dict[str, str] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)

    def add_commit(self, branch: str, files: Files, message: str) -> str:
        """Let a branch point to new contents."""
        names = sorted((path, git_name(content)) for path, content in files.items())
        commit = git_name(f"{branch} {len(self.commits)} {message} {names}".encode())
        self.commits[commit], self.messages[commit] = files, message
        self.branches[branch] = commit
        return commit

    def commit_of(self, revision: str) -> str:
        """Resolve a branch, a tag or a commit."""
        commit = self.branches.get(revision) or self.tags.get(revision) or revision
        if commit not in self.commits:
            raise Refusal(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        return commit


@dataclass
class Hub:
    """The state of the server, open to tests.

    Attributes:
        address: What HF_ENDPOINT must be.
        repositories: By `OWNER/NAME`.
        objects: Large files by SHA-256.
        faults: Status to answer with, or `DROP`, by the name of what is asked: `commit`, `upload`.
        requests: Method and path of what was asked, in order.
    """

    address: str = ""
    repositories: dict[str, Repository] = field(default_factory=dict)
    objects: dict[str, bytes] = field(default_factory=dict)
    faults: dict[str, int] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)
    lock: Any = field(default_factory=RLock)

    def files(self, repo: str, revision: str = "main") -> Files:
        """Return what a repository holds."""
        found = self.repositories[repo]
        return found.commits[found.commit_of(revision)]

    def environment(self, home: object, token: str = TOKEN) -> dict[str, str]:
        """Return the variables of a process with an empty cache that knows only this Hub."""
        return {
            "HF_ENDPOINT": self.address,
            "HF_HOME": str(home),
            "HF_TOKEN": token,
            "HF_HUB_OFFLINE": "0",
            "HF_HUB_DISABLE_XET": "1",
        }


class Refusal(Exception):
    """An answer that is an error."""

    def __init__(self, status: int, code: str = "", message: str = "", body: Any = None) -> None:
        super().__init__(message)
        self.status, self.body = status, {"error": message, **(body or {})}
        self.headers = {"X-Error-Code": code, "X-Error-Message": message}


def is_large(path: str, size: int) -> bool:
    """Return whether a file is uploaded by LFS."""
    return path.endswith(".safetensors") or size > 1_000_000


def git_name(content: bytes) -> str:
    """Name contents as git does."""
    return hashlib.sha1(b"blob %d\0%b" % (len(content), content)).hexdigest()


def digest_of(path: str, content: bytes) -> str:
    """Name the contents of a file as the Hub does, which depends on the way it goes."""
    if is_large(path, len(content)):
        return hashlib.sha256(content).hexdigest()
    return git_name(content)
