"""What programs fetch from in network-clients.test.mjs: makes a folder of files and serves it over TLS on a free port of loopback.

Usage: origin.py FOLDER, with cert.pem and key.pem in it. Prints the port and serves until its input ends.
"""

import functools
import http.server
import io
import json
import os
import ssl
import subprocess
import sys
import tarfile
import threading
import zipfile

folder = sys.argv[1]
root = os.path.join(folder, "root")


def write(path, data):
    path = os.path.join(root, path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(data)


def wheel():
    data = io.BytesIO()
    info = "hello-1.0.dist-info"
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: hello\nVersion: 1.0\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return data.getvalue()


def package():
    data = io.BytesIO()
    manifest = json.dumps({"name": "hello", "version": "1.0.0"}).encode()
    with tarfile.open(fileobj=data, mode="w:gz") as archive:
        entry = tarfile.TarInfo("package/package.json")
        entry.size = len(manifest)
        archive.addfile(entry, io.BytesIO(manifest))
    return data.getvalue()


def repository():
    work = os.path.join(folder, "work")
    git = ["git", "-c", "user.name=t", "-c", "user.email=t@example.com"]
    subprocess.run([*git, "init", "-q", work], check=True)
    with open(os.path.join(work, "hello.txt"), "w") as file:
        file.write("hello from git\n")
    subprocess.run([*git, "-C", work, "add", "."], check=True)
    subprocess.run([*git, "-C", work, "commit", "-q", "-m", "first"], check=True)
    bare = os.path.join(root, "hello.git")
    subprocess.run([*git, "clone", "-q", "--bare", work, bare], check=True)
    subprocess.run([*git, "-C", bare, "update-server-info"], check=True)


write("hello.txt", b"hello over tls\n")
write("simple/hello/hello-1.0-py3-none-any.whl", wheel())
write("npm/hello-1.0.0.tgz", package())
repository()


class Handler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=root))
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(os.path.join(folder, "cert.pem"), os.path.join(folder, "key.pem"))
server.socket = context.wrap_socket(server.socket, server_side=True)
# npm takes the archive from where this says, with its port.
port = server.server_address[1]
dist = {"tarball": f"https://good.test:{port}/npm/hello-1.0.0.tgz"}
version = {"name": "hello", "version": "1.0.0", "dist": dist}
document = {"name": "hello", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": version}}
write("npm/hello", json.dumps(document).encode())
threading.Thread(target=server.serve_forever, daemon=True).start()
print(port, flush=True)
sys.stdin.read()
