"""A small Hugging Face Hub on 127.0.0.1, for tests that push and load without another network.

The server answers the requests of huggingface_hub for repositories of models and Spaces: create,
upload (small files in the commit, large ones by LFS), commit, branch, list, download. Clients need
HF_HUB_DISABLE_XET=1.
"""

import base64
import hashlib
import json
import re
import socket
from collections.abc import Iterator
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


class Repository:
    """Commits by id, each with all its files, their messages, and the branches that name them."""

    def __init__(self, private: bool, sdk: str | None = None) -> None:
        self.private = private
        self.sdk = sdk  # of a Space
        self.commits: dict[str, Files] = {}
        self.messages: dict[str, str] = {}
        self.branches: dict[str, str] = {}
        self.add_commit("main", {".gitattributes": b"*.safetensors filter=lfs\n"}, "initial commit")

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
            raise _Refusal(404, f"Invalid rev id: {revision}", "RevisionNotFound")
        return commit


@dataclass
class Hub:
    """The state of the server, open to tests.

    Attributes:
        address: The value for HF_ENDPOINT.
        repositories: By `OWNER/NAME`, a Space by `spaces/OWNER/NAME`.
        objects: Large files by SHA-256.
        faults: Status to answer with, or `DROP`, by the name of a route: `commit`, `upload`.
        requests: Method and path of all requests, in order.
        lock: Taken to change any of these.
    """

    address: str = ""
    repositories: dict[str, Repository] = field(default_factory=dict)
    objects: dict[str, bytes] = field(default_factory=dict)
    faults: dict[str, int] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)
    lock: Any = field(default_factory=RLock)

    def files(self, repo: str, revision: str = "main") -> Files:
        """Return the files of a repository."""
        found = self.repositories[repo]
        return found.commits[found.commit_of(revision)]

    def environment(self, home: object, token: str = TOKEN) -> dict[str, str]:
        """Return the variables of a process with an empty cache that knows only this Hub."""
        own = {"HF_ENDPOINT": self.address, "HF_HOME": str(home), "HF_TOKEN": token}
        return {**own, "HF_HUB_OFFLINE": "0", "HF_HUB_DISABLE_XET": "1"}


class _Refusal(Exception):
    def __init__(self, status: int, message: str, code: str = "", **body: str) -> None:
        super().__init__(message)
        self.status, self.body = status, {"error": message, **body}
        self.headers = {"X-Error-Code": code, "X-Error-Message": message}


def git_name(content: bytes) -> str:
    """Name contents as git does."""
    return hashlib.sha1(b"blob %d\0%b" % (len(content), content)).hexdigest()


REPO, REV = r"(?P<repo>(?:spaces/)?[^/]+/[^/]+)", r"(?P<revision>[^/]+)"
API = f"/api/(?:models/)?{REPO}"
# Methods and paths, and the methods of `_Handler` that answer them.
ROUTES = {
    "POST /api/validate-yaml": "validate",
    "POST /api/repos/create": "create",
    f"GET {API}(/revision/{REV})?": "info",
    f"POST {API}/branch/(?P<name>.+)": "branch",
    f"GET {API}/tree/{REV}(/(?P<folder>.+))?": "tree",
    f"POST {API}/preupload/{REV}": "preupload",
    f"POST /{REPO}\\.git/info/lfs/objects/batch": "batch",
    "PUT /lfs/(?P<oid>[0-9a-f]{64})": "upload",
    f"POST {API}/commit/{REV}": "commit",
    f"(GET|HEAD) /{REPO}/resolve/{REV}/(?P<path>.+)": "resolve",
}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    hub: Hub

    def log_message(self, *args: Any) -> None:
        pass

    def answer(self) -> None:
        path = urlsplit(self.path).path  # still quoted: the name of a branch may hold a slash
        asked = f"{self.command} {path}"
        routes = [(re.fullmatch(pattern, asked), name) for pattern, name in ROUTES.items()]
        found, name = next(route for route in routes if route[0])
        with self.hub.lock:
            self.hub.requests.append(unquote(asked))
        try:
            self.read_body(name)
            with self.hub.lock:
                groups = {k: v and unquote(v) for k, v in found.groupdict().items()}
                self.send_answer(200, getattr(self, name)(**groups))
        except _Refusal as refusal:
            self.send_answer(refusal.status, refusal.body, refusal.headers)

    do_GET = do_HEAD = do_POST = do_PUT = answer

    def read_body(self, name: str) -> None:
        """Read the body, or fail as the test wants; `DROP` breaks the connection half-way."""
        length = int(self.headers.get("Content-Length") or 0)
        status = self.hub.faults.get(name)
        self.body = self.rfile.read(length // 2 if status == DROP else length)
        if status is None:
            return
        self.close_connection = True
        if status == DROP:
            self.connection.shutdown(socket.SHUT_RDWR)
            raise ConnectionAbortedError("as the test wants it")
        # A server may well repeat what it was sent.
        refusal = _Refusal(status, f"as told; {self.headers.get('Authorization')}")
        refusal.headers["Connection"] = "close"  # or the client might ask again here
        raise refusal

    def send_answer(self, status: int, value: Any, headers: dict[str, str] | None = None) -> None:
        """Send a file with its headers, or a value as JSON; for HEAD the headers alone."""
        if isinstance(value, tuple):
            content, headers = value
        else:
            content = json.dumps(value).encode()
            headers = {"Content-Type": "application/json", **(headers or {})}
        self.send_response(status)
        for name, text in {"Content-Length": str(len(content)), **headers}.items():
            self.send_header(name, text)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def check_user(self, *, writes: bool = False) -> bool:
        """Return whether the client has the token; refuse another one, and writing without."""
        token = (self.headers.get("Authorization") or "").removeprefix("Bearer ")
        if token != TOKEN and (token or writes):
            raise _Refusal(401, "Invalid credentials in Authorization header")
        return bool(token)

    def repository(self, repo: str, *, writes: bool = False) -> Repository:
        """Return a repository, if the client may see it."""
        is_user = self.check_user(writes=writes)
        found = self.hub.repositories.get(repo)
        if found is None or (found.private and not is_user):
            raise _Refusal(404 if is_user else 401, "Repository not found", "RepoNotFound")
        return found

    def validate(self) -> Any:
        return {"errors": [], "warnings": []}

    def create(self) -> Any:
        asked = json.loads(self.body)
        self.check_user(writes=True)
        repo = f"{asked.get('organization') or OWNER}/{asked['name']}"
        repo = f"spaces/{repo}" if asked.get("sdk") else repo
        url = f"{self.hub.address}/{repo}"
        if repo in self.hub.repositories:
            raise _Refusal(409, "You already created this model repo", url=url)
        private = asked.get("visibility") == "private" or bool(asked.get("private"))
        self.hub.repositories[repo] = Repository(private, asked.get("sdk"))
        return {"url": url}

    def info(self, repo: str, revision: str | None) -> Any:
        found = self.repository(repo)
        commit = found.commit_of(revision or "main")
        siblings = [{"rfilename": path} for path in sorted(found.commits[commit])]
        name = repo.removeprefix("spaces/")
        known = {"_id": "0", "id": name, "modelId": name, "private": found.private, "tags": []}
        return {**known, "sha": commit, "siblings": siblings, "downloads": 0, "likes": 0}

    def branch(self, repo: str, name: str) -> Any:
        found = self.repository(repo, writes=True)
        if name in found.branches:
            raise _Refusal(409, f"Reference {name} already exists")
        found.branches[name] = found.branches["main"]
        return {}

    def tree(self, repo: str, revision: str, folder: str | None) -> Any:
        self.repository(repo)
        entries = [
            {"type": "file", "path": path, "size": len(content), "oid": git_name(content)}
            for path, content in self.hub.files(repo, revision).items()
            if path.startswith(f"{folder}/" if folder else "")
        ]
        if folder and not entries:
            raise _Refusal(404, f"{folder} does not exist on {revision!r}", "EntryNotFound")
        return entries

    def preupload(self, repo: str, revision: str) -> Any:
        """Say which way each file goes: weights by LFS."""
        self.repository(repo, writes=True)
        files = []
        for asked in json.loads(self.body)["files"]:
            mode = "lfs" if asked["path"].endswith(".safetensors") else "regular"
            files.append({"path": asked["path"], "uploadMode": mode, "shouldIgnore": False})
        return {"files": files}

    def batch(self, repo: str) -> Any:
        """Say where to put large files."""
        self.repository(repo, writes=True)
        objects = [
            {**asked, "actions": {"upload": {"href": f"{self.hub.address}/lfs/{asked['oid']}"}}}
            for asked in json.loads(self.body)["objects"]
        ]
        return {"transfer": "basic", "objects": objects}

    def upload(self, oid: str) -> Any:
        if hashlib.sha256(self.body).hexdigest() != oid:
            raise _Refusal(400, "the digest differs")
        self.hub.objects[oid] = self.body
        return {}

    def commit(self, repo: str, revision: str) -> Any:
        """Put all files of a commit in place at once."""
        found = self.repository(repo, writes=True)
        if revision not in found.branches:
            raise _Refusal(404, f"Invalid rev id: {revision}", "RevisionNotFound")
        files, message = dict(self.hub.files(repo, revision)), ""
        for line in self.body.splitlines():
            entry = json.loads(line)
            key, value = entry["key"], entry["value"]
            if key == "header":
                message = value["summary"]
            elif key == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif key == "lfsFile":
                files[value["path"]] = self.hub.objects[value["oid"]]
            else:
                assert key == "deletedFile", key
                del files[value["path"]]
        commit = found.add_commit(revision, files, message)
        return {"commitUrl": f"{self.hub.address}/{repo}/commit/{commit}", "commitOid": commit}

    def resolve(self, repo: str, revision: str, path: str) -> tuple[bytes, dict[str, str]]:
        commit = self.repository(repo).commit_of(revision)
        content = self.hub.files(repo, commit).get(path)
        if content is None:
            raise _Refusal(404, "Entry not found", "EntryNotFound")
        return content, {"X-Repo-Commit": commit, "ETag": f'"{git_name(content)}"'}


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
    server = _QuietServer(("127.0.0.1", 0), type("BoundHandler", (_Handler,), {"hub": hub}))
    hub.address = f"http://127.0.0.1:{server.server_port}"
    Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
