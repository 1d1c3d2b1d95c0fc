"""A server that speaks S3, with a bucket `fleet`, on a free port that it prints, until its standard input ends."""

import sys
import urllib.request

from moto.server import ThreadedMotoServer

server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
host, port = server.get_host_and_port()
place = f"http://{host}:{port}"
urllib.request.urlopen(urllib.request.Request(f"{place}/fleet", method="PUT")).close()
print(place, flush=True)
sys.stdin.read()
server.stop()
