"""A small Hugging Face Hub on 127.0.0.1, for tests that push and load without another network.

It answers what huggingface_hub asks of model repositories in these tests: create, upload (small
files in the commit, large ones by LFS), commit, branch, list, download. It offers no Xet, so
clients need HF_HUB_DISABLE_XET=1.
"""

import base64
import hashlib
import json
import re
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import RLock, Thread
from typing import Any
from urllib.parse import unquote, urlsplit

import huggingface_hub
import pytest
from packaging.version import Version

OWNER = "someone"
TOKEN = "hf_" + "write" * 6
DROP = 0  # instead of a status: break the connection

Files = dict[str, bytes]


@dataclass
class Repository:
    """Commits by id, each with all its files, and the names that point to them."""

    private: bool = False
    commits: dict[str, Files] = field(default_factory=dict)
    messages: dict[str, str] = field(default_factory=dict)
    branches: dict[str, str] = field(default_factory=dict)

    def add_commit(self, branch: str, files: Files, message: str) -> str:
        """Let a branch point to new contents."""
        names = sorted((path, git_name(content)) for path, content in files.items())
        commit = git_name(f"{branch} {len(self.commits)} {message} {names}".encode())
        self.commits[commit], self.messages[commit] = files, message
        self.branches[branch] = commit
        return commit

    def commit_of(self, revision: str) -> str:
        """Resolve a branch or a commit."""
        commit = self.branches.get(revision, revision)
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


ROUTES: list[tuple[str, re.Pattern[str], str]] = []
REPO = r"(?P<repo>[^/]+/[^/]+)"
REV = r"(?P<revision>[^/]+)"


def route(methods: str, pattern: str) -> Callable[[Any], Any]:
    """Let a method of `Handler` answer what matches."""

    def register(function: Any) -> Any:
        ROUTES.append((methods, re.compile(pattern), function.__name__))
        return function

    return register


class Handler(BaseHTTPRequestHandler):
    """Answers one request."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    hub: Hub

    def log_message(self, *args: Any) -> None:
        """Stay silent."""

    def answer(self) -> None:
        """Find the route, and answer with what it returns or refuses."""
        length = int(self.headers.get("Content-Length") or 0)
        path = urlsplit(self.path).path  # still quoted: the name of a branch may hold a slash
        with self.hub.lock:
            self.hub.requests.append(f"{self.command} {unquote(path)}")
        try:
            for methods, pattern, name in ROUTES:
                if self.command in methods.split() and (found := pattern.fullmatch(path)):
                    self.fail_if_told(name, length)
                    self.body = self.rfile.read(length)
                    with self.hub.lock:
                        groups = {k: v and unquote(v) for k, v in found.groupdict().items()}
                        self.send_json(200, getattr(self, name)(**groups))
                    return
            raise Refusal(404, message=f"no route for {self.command} {path}")
        except Refusal as refusal:
            self.send_json(refusal.status, refusal.body, refusal.headers)

    do_GET = do_HEAD = do_POST = do_PUT = answer

    def fail_if_told(self, name: str, length: int) -> None:
        """Fail as the test wants; `DROP` breaks the connection half-way through the body."""
        if name not in self.hub.faults:
            return
        status = self.hub.faults[name]
        self.rfile.read(length // 2 if status == DROP else length)
        self.close_connection = True
        if status == DROP:
            self.connection.shutdown(socket.SHUT_RDWR)
            raise ConnectionAbortedError("as the test wants it")
        # A server may well repeat what it was sent.
        told = Refusal(status, message=f"as told; {self.headers.get('Authorization')}")
        told.headers["Connection"] = "close"  # or the client might ask again here
        raise told

    def send_json(self, status: int, value: Any, headers: dict[str, str] | None = None) -> None:
        """Send a value; None means that the answer has been sent."""
        if value is not None:
            content = json.dumps(value).encode()
            self.send_content(status, content, {"Content-Type": "application/json"}, headers)

    def send_content(self, status: int, content: bytes, *headers: dict[str, str] | None) -> None:
        """Send bytes, or for HEAD what would be sent."""
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        for name, value in (item for some in headers for item in (some or {}).items()):
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    # ---- who asks, and what for ------------------------------------------------------------------

    def check_user(self, *, writes: bool = False) -> bool:
        """Return whether the client has the token; refuse another one, and writing without."""
        token = (self.headers.get("Authorization") or "").removeprefix("Bearer ")
        if token != TOKEN and (token or writes):
            raise Refusal(401, message="Invalid credentials in Authorization header")
        return bool(token)

    def repository(self, repo: str, *, writes: bool = False) -> Repository:
        """Return a repository, if the client may see it."""
        is_user = self.check_user(writes=writes)
        found = self.hub.repositories.get(repo)
        if found is None or (found.private and not is_user):
            raise Refusal(404 if is_user else 401, "RepoNotFound", "Repository not found")
        return found

    @route("POST", "/api/validate-yaml")
    def validate(self) -> Any:
        """Find nothing wrong with a card."""
        return {"errors": [], "warnings": []}

    # ---- repositories ----------------------------------------------------------------------------

    @route("POST", "/api/repos/create")
    def create(self) -> Any:
        """Make a repository with its first commit."""
        asked = json.loads(self.body)
        self.check_user(writes=True)
        repo = f"{asked.get('organization') or OWNER}/{asked['name']}"
        address = {"url": f"{self.hub.address}/{repo}"}
        if repo in self.hub.repositories:
            raise Refusal(409, message="You already created this model repo", body=address)
        private = asked.get("visibility") == "private" or bool(asked.get("private"))
        made = self.hub.repositories[repo] = Repository(private)
        made.add_commit("main", {".gitattributes": b"*.safetensors filter=lfs\n"}, "initial commit")
        return address

    @route("GET", f"/api/models/{REPO}(/revision/{REV})?")
    def info(self, repo: str, revision: str | None) -> Any:
        """Describe a repository at a revision."""
        found = self.repository(repo)
        commit = found.commit_of(revision or "main")
        siblings = [{"rfilename": path} for path in sorted(found.commits[commit])]
        known = {"_id": "0", "id": repo, "modelId": repo, "private": found.private, "tags": []}
        return {**known, "sha": commit, "siblings": siblings, "downloads": 0, "likes": 0}

    @route("POST", f"/api/models/{REPO}/branch/(?P<name>.+)")
    def branch(self, repo: str, name: str) -> Any:
        """Make a branch."""
        found = self.repository(repo, writes=True)
        if name in found.branches:
            raise Refusal(409, message=f"Reference {name} already exists")
        start = json.loads(self.body or b"{}").get("startingPoint", "main")
        found.branches[name] = found.commit_of(start)
        return {}

    @route("GET", f"/api/models/{REPO}/tree/{REV}(/(?P<folder>.+))?")
    def tree(self, repo: str, revision: str, folder: str | None) -> Any:
        """List files with their sizes and digests."""
        found = self.repository(repo)
        entries = [
            {"type": "file", "path": path, "size": len(content), "oid": git_name(content)}
            for path, content in found.commits[found.commit_of(revision)].items()
            if path.startswith(f"{folder}/" if folder else "")
        ]
        if folder and not entries:
            raise Refusal(404, "EntryNotFound", f"{folder} does not exist on {revision!r}")
        return entries

    # ---- upload ----------------------------------------------------------------------------------

    @route("POST", f"/api/models/{REPO}/preupload/{REV}")
    def preupload(self, repo: str, revision: str) -> Any:
        """Say which way each file goes."""
        self.repository(repo, writes=True)
        return {
            "files": [
                {
                    "path": file["path"],
                    "uploadMode": "lfs" if is_large(file["path"], file["size"]) else "regular",
                    "shouldIgnore": False,
                }
                for file in json.loads(self.body)["files"]
            ]
        }

    @route("POST", f"/{REPO}\\.git/info/lfs/objects/batch")
    def batch(self, repo: str) -> Any:
        """Say where to put large files."""
        self.repository(repo, writes=True)
        objects = [
            {**asked, "actions": {"upload": {"href": f"{self.hub.address}/lfs/{asked['oid']}"}}}
            for asked in json.loads(self.body)["objects"]
        ]
        return {"transfer": "basic", "objects": objects}

    @route("PUT", "/lfs/(?P<oid>[0-9a-f]{64})")
    def upload(self, oid: str) -> Any:
        """Take a large file, if it is whole."""
        if hashlib.sha256(self.body).hexdigest() != oid:
            raise Refusal(400, message="the digest differs")
        self.hub.objects[oid] = self.body
        return {}

    @route("POST", f"/api/models/{REPO}/commit/{REV}")
    def commit(self, repo: str, revision: str) -> Any:
        """Put all files of a commit in place at once."""
        found = self.repository(repo, writes=True)
        if revision not in found.branches:
            raise Refusal(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        files, message = dict(self.hub.files(repo, revision)), ""
        for line in self.body.splitlines():
            entry = json.loads(line)
            value = entry["value"]
            if entry["key"] == "header":
                message = value["summary"]
            elif entry["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif entry["key"] == "lfsFile":
                files[value["path"]] = self.hub.objects[value["oid"]]
            elif entry["key"] == "deletedFile":
                del files[value["path"]]
            else:
                raise Refusal(400, message=f"no operation {entry['key']}")
        commit = found.add_commit(revision, files, message)
        return {"commitUrl": f"{self.hub.address}/{repo}/commit/{commit}", "commitOid": commit}

    # ---- download --------------------------------------------------------------------------------

    @route("GET HEAD", f"/{REPO}/resolve/{REV}/(?P<path>.+)")
    def resolve(self, repo: str, revision: str, path: str) -> None:
        """Send a file."""
        found = self.repository(repo)
        commit = found.commit_of(revision)
        if path not in found.commits[commit]:
            raise Refusal(404, "EntryNotFound", "Entry not found")
        content = found.commits[commit][path]
        headers = {"X-Repo-Commit": commit, "ETag": f'"{git_name(content)}"'}
        self.send_content(200, content, headers)


class _QuietServer(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *args: Any) -> None:
        """Stay silent about broken connections; tests break them on purpose."""


@contextmanager
def running_hub() -> Iterator[Hub]:
    """Serve an empty Hub until the end of the block."""
    if Version(huggingface_hub.__version__) < Version("2"):
        pytest.skip("huggingface_hub 1 has cards checked at huggingface.co, whatever HF_ENDPOINT")
    hub = Hub()
    server = _QuietServer(("127.0.0.1", 0), type("BoundHandler", (Handler,), {"hub": hub}))
    hub.address = f"http://127.0.0.1:{server.server_port}"
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
