#!/bin/sh
# Makes the certificates of the tests, for a hundred years. Nobody else believes them: the key of the authority is thrown away.
set -eu
cd "$(dirname "$0")"
key() { openssl ecparam -name prime256v1 -genkey -noout | openssl pkcs8 -topk8 -nocrypt; }
authority() {
  key >"$1.key"
  openssl req -x509 -new -key "$1.key" -days 36500 -subj "/CN=$1" -out "$1.pem" \
    -addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign
}
signed() {
  key >"$1-key.pem"
  printf 'subjectAltName=%s\nextendedKeyUsage=%s\n' "$2" "$3" >extensions
  openssl req -new -key "$1-key.pem" -subj "/CN=$1" |
    openssl x509 -req -CA authority.pem -CAkey authority.key -days 36500 -extfile extensions -out "$1.pem"
}
authority authority
authority stranger
signed localhost DNS:localhost serverAuth
signed elsewhere DNS:peer.example serverAuth
signed client DNS:gateway.example clientAuth
rm authority.key stranger.key extensions
