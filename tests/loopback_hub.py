"""A small Hugging Face Hub on 127.0.0.1, for tests that push and load without another network.

It speaks what huggingface_hub asks of repositories of models: create, upload small files in the
commit and large ones by LFS, commit, branch, tag, list, and download by parts. Each answer has the
form of the real one; what is not needed here is not there. It offers no Xet, so clients that know
Xet must be told HF_HUB_DISABLE_XET=1.
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

OWNER = "someone"
TOKEN = "hf_" + "write" * 6
READ_TOKEN = "hf_" + "read0" * 6
DROP = 0  # in place of a status: break the connection off

Files = dict[str, bytes]
ROUTES: list[tuple[str, re.Pattern[str], str]] = []
REPO = r"(?P<repo>[^/]+/[^/]+)"
REV = r"(?P<revision>[^/]+)"


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
        damaged: Files that a commit stores with other contents, of the same length.
        requests: Method and path of what was asked, in order.
    """

    address: str = ""
    repositories: dict[str, Repository] = field(default_factory=dict)
    objects: dict[str, bytes] = field(default_factory=dict)
    faults: dict[str, int] = field(default_factory=dict)
    damaged: set[str] = field(default_factory=set)
    requests: list[str] = field(default_factory=list)
    lock: Any = field(default_factory=RLock)

    def files(self, repo: str, revision: str = "main") -> Files:
        """Return what a repository holds."""
        found = self.repositories[repo]
        return found.commits[found.commit_of(revision)]

    def environment(self, home: object, token: str = TOKEN) -> dict[str, str]:
        """Return the variables for a process that has nothing cached and knows this Hub alone."""
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


def route(methods: str, pattern: str) -> Callable[[Any], Any]:
    """Let a method of `Handler` answer what matches."""

    def register(function: Any) -> Any:
        ROUTES.append((methods, re.compile(pattern), function.__name__))
        return function

    return register


def is_large(path: str, size: int) -> bool:
    """Say whether a file goes by LFS."""
    return path.endswith(".safetensors") or size > 1_000_000


def git_name(content: bytes) -> str:
    """Name contents as git does."""
    return hashlib.sha1(b"blob %d\0%b" % (len(content), content)).hexdigest()


class Handler(BaseHTTPRequestHandler):
    """Answers one request."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    hub: Hub

    def log_message(self, *args: Any) -> None:
        """Keep quiet."""

    def answer(self) -> None:
        """Find the route, and answer with what it returns or refuses."""
        length = int(self.headers.get("Content-Length") or 0)
        path = unquote(urlsplit(self.path).path)
        with self.hub.lock:
            self.hub.requests.append(f"{self.command} {path}")
        try:
            for methods, pattern, name in ROUTES:
                if self.command in methods.split() and (found := pattern.fullmatch(path)):
                    self.break_if_told(name, length)
                    self.body = self.rfile.read(length)
                    with self.hub.lock:
                        self.send_json(200, getattr(self, name)(**found.groupdict()))
                    return
            raise Refusal(404, message=f"no route for {self.command} {path}")
        except Refusal as refusal:
            self.send_json(refusal.status, refusal.body, refusal.headers)

    do_GET = do_HEAD = do_POST = do_PUT = answer

    def break_if_told(self, name: str, length: int) -> None:
        """Fail as the test wants, half-way through what is sent."""
        if name not in self.hub.faults:
            return
        status = self.hub.faults[name]
        self.rfile.read(length // 2 if status == DROP else length)
        self.close_connection = True
        if status == DROP:
            self.connection.shutdown(socket.SHUT_RDWR)
            raise ConnectionAbortedError("as the test wants it")
        raise Refusal(status, message="as the test wants it")

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

    def user(self, *, writes: str = "") -> str | None:
        """Return who asks; with `writes`, only if they may write to that owner's repositories."""
        token = (self.headers.get("Authorization") or "").removeprefix("Bearer ")
        if token not in (TOKEN, READ_TOKEN) and (token or writes):
            raise Refusal(401, message="Invalid credentials in Authorization header")
        if writes and (token == READ_TOKEN or writes != OWNER):
            raise Refusal(403, message=f"You don't have the rights to write to {writes}")
        return OWNER if token else None

    def repository(self, repo: str, *, writes: bool = False) -> Repository:
        """Return a repository that the one who asks may see."""
        user = self.user(writes=repo.partition("/")[0] if writes else "")
        found = self.hub.repositories.get(repo)
        if found is None or (found.private and user is None):
            raise Refusal(404 if user else 401, "RepoNotFound", "Repository not found")
        return found

    @route("GET", "/api/whoami-v2")
    def whoami(self) -> Any:
        """Name the one who asks."""
        return {"type": "user", "name": self.user(writes=OWNER)}

    @route("POST", "/api/validate-yaml")
    def validate(self) -> Any:
        """Find nothing wrong with a card."""
        return {"errors": [], "warnings": []}

    # ---- repositories ----------------------------------------------------------------------------

    @route("POST", "/api/repos/create")
    def create(self) -> Any:
        """Make a repository with its first commit."""
        asked = json.loads(self.body)
        owner = asked.get("organization") or OWNER
        self.user(writes=owner)
        repo = f"{owner}/{asked['name']}"
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

    @route("GET", f"/api/models/{REPO}/refs")
    def refs(self, repo: str) -> Any:
        """List branches and tags."""
        found = self.repository(repo)
        branches, tags = (
            [
                {"name": name, "ref": f"refs/{kind}/{name}", "targetCommit": commit}
                for name, commit in pointers.items()
            ]
            for kind, pointers in (("heads", found.branches), ("tags", found.tags))
        )
        return {"branches": branches, "tags": tags, "converts": []}

    @route("POST", f"/api/models/{REPO}/branch/(?P<name>.+)")
    def branch(self, repo: str, name: str) -> Any:
        """Make a branch."""
        found = self.repository(repo, writes=True)
        if name in found.branches:
            raise Refusal(409, message=f"Reference {name} already exists")
        start = json.loads(self.body or b"{}").get("startingPoint", "main")
        found.branches[name] = found.commit_of(start)
        return {}

    @route("POST", f"/api/models/{REPO}/tag/{REV}")
    def tag(self, repo: str, revision: str) -> Any:
        """Make a tag."""
        found = self.repository(repo, writes=True)
        found.tags[json.loads(self.body)["tag"]] = found.commit_of(revision)
        return {}

    @route("GET", f"/api/models/{REPO}/tree/{REV}(/(?P<folder>.+))?")
    def tree(self, repo: str, revision: str, folder: str | None) -> Any:
        """List files with their sizes and digests."""
        found = self.repository(repo)
        inside = {
            path: content
            for path, content in found.commits[found.commit_of(revision)].items()
            if folder is None or path.startswith(f"{folder}/")
        }
        if folder is not None and not inside:
            raise Refusal(404, "EntryNotFound", f"{folder} does not exist on {revision!r}")
        entries = []
        for path, content in inside.items():
            entry = {"type": "file", "path": path, "size": len(content), "oid": git_name(content)}
            if is_large(path, len(content)):
                sha256 = hashlib.sha256(content).hexdigest()
                entry["lfs"] = {"oid": sha256, "size": len(content), "pointerSize": 100}
            entries.append(entry)
        return entries

    # ---- upload ----------------------------------------------------------------------------------

    @route("POST", f"/api/models/{REPO}/preupload/{REV}")
    def preupload(self, repo: str, revision: str) -> Any:
        """Say which way each file goes."""
        self.repository(repo, writes=True).commit_of(revision)
        asked = json.loads(self.body)["files"]
        modes = [("lfs" if is_large(file["path"], file["size"]) else "regular") for file in asked]
        return {
            "files": [
                {"path": file["path"], "uploadMode": mode, "shouldIgnore": False, "oid": None}
                for file, mode in zip(asked, modes, strict=True)
            ]
        }

    @route("POST", f"/{REPO}\\.git/info/lfs/objects/batch")
    def batch(self, repo: str) -> Any:
        """Say where to put large files that are not there yet."""
        self.repository(repo, writes=True)
        objects = []
        for asked in json.loads(self.body)["objects"]:
            entry = {"oid": asked["oid"], "size": asked["size"]}
            if asked["oid"] not in self.hub.objects:
                places = {"upload": f"lfs/{asked['oid']}", "verify": f"{repo}.git/info/lfs/verify"}
                entry["actions"] = {
                    name: {"href": f"{self.hub.address}/{place}"} for name, place in places.items()
                }
            objects.append(entry)
        return {"transfer": "basic", "objects": objects}

    @route("PUT", "/lfs/(?P<oid>[0-9a-f]{64})")
    def upload(self, oid: str) -> Any:
        """Take a large file, if it is whole."""
        if hashlib.sha256(self.body).hexdigest() != oid:
            raise Refusal(400, message="the digest differs")
        self.hub.objects[oid] = self.body
        return {}

    @route("POST", f"/{REPO}\\.git/info/lfs/verify")
    def verify(self, repo: str) -> Any:
        """Confirm that a large file has arrived."""
        self.repository(repo, writes=True)
        asked = json.loads(self.body)
        if len(self.hub.objects.get(asked["oid"], b"")) != asked["size"]:
            raise Refusal(404, message="not uploaded")
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
        for path in self.hub.damaged & files.keys():
            files[path] = files[path][:-1] + b"?"
        commit = found.add_commit(revision, files, message)
        return {"commitUrl": f"{self.hub.address}/{repo}/commit/{commit}", "commitOid": commit}

    # ---- download --------------------------------------------------------------------------------

    @route("GET HEAD", f"/{REPO}/resolve/{REV}/(?P<path>.+)")
    def resolve(self, repo: str, revision: str, path: str) -> None:
        """Send a file or the part of it that is asked for."""
        found = self.repository(repo)
        commit = found.commit_of(revision)
        if path not in found.commits[commit]:
            raise Refusal(404, "EntryNotFound", "Entry not found")
        content = found.commits[commit][path]
        digest = git_name(content)
        if is_large(path, len(content)):
            digest = hashlib.sha256(content).hexdigest()
        headers = {"ETag": f'"{digest}"', "X-Repo-Commit": commit}
        part = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range") or "")
        if part is None:
            self.send_content(200, content, headers)
            return
        start, end = int(part[1]), int(part[2] or len(content) - 1)
        place = {"Content-Range": f"bytes {start}-{end}/{len(content)}"}
        self.send_content(206, content[start : end + 1], headers, place)


class _QuietServer(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *args: Any) -> None:
        """Say nothing of connections that break off; tests break them on purpose."""


@contextmanager
def running_hub() -> Iterator[Hub]:
    """Serve an empty Hub until the end of the block."""
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
