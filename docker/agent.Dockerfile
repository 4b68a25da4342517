# An image for coding agents: Node, Python and git, with what they need to build.
#
#   docker build --tag sandbox-agent docker --file docker/agent.Dockerfile
#   createDockerSandboxEnvironment({
#     image: 'sandbox-agent',
#     user: '1000:1000',
#     workspace: { id: 'repo', exec: true },           // for node_modules/.bin, a venv, compiled programs
#     tmp: { sizeMb: 64 },
#     limits: { memoryMb: 1024, pids: 256, maxWorkspaceBytes: 512 * 1024 * 1024 },
#     env: { npm_config_cache: '/tmp/npm', PIP_CACHE_DIR: '/tmp/pip' },
#     …
#   })
#
# The root file system of a run is read-only, and there is no network but for an allowlist: what every run needs belongs in
# here. Variables that are set here reach no command but `PATH`; pass them as `env`.
#
# To have the same image tomorrow, pin this by its digest: docker buildx imagetools inspect node:22-bookworm-slim
FROM node:22-bookworm-slim

RUN apt-get update \
  && apt-get install --yes --no-install-recommends \
    build-essential ca-certificates curl git jq less patch procps python3 python3-pip python3-venv ripgrep unzip \
  && rm -rf /var/lib/apt/lists/*

# `node` is the image's user 1000, so that git and ssh find a name for it. Commits need an author; what the workspace's own
# configuration says comes before this.
RUN git config --system user.name agent && git config --system user.email agent@localhost

USER 1000:1000
WORKDIR /workspace
