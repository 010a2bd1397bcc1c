# Runs in the container of tests/package.sh, as a unit of its systemd.
set -euo pipefail
config=/etc/weft/weft.toml
say() { echo "package: $1"; }
# Repeats a command until it succeeds, for at most half a minute.
until_true() {
    for _ in {1..150}; do
        if "$@" >/dev/null 2>&1; then return; fi
        sleep 0.2
    done
    echo "package: still failing after 30 s: $*" >&2
    journalctl --no-pager --lines 40 --unit 'weft-*' >&2
    exit 1
}
trap '[[ $? == 0 ]] || say "failed near line $LINENO"' EXIT

dpkg --install /weft.deb
say "installed: $(weft --version)"
man --where weft-start >/dev/null
systemd-analyze verify /lib/systemd/system/weft-node@.service /lib/systemd/system/weft-membership.service

runuser -u weft -- weft init --nodes 3 --redis --dir /etc/weft
systemctl start weft-node@{0,1,2}
until_true weft status --config $config
addresses=($(sed -n '/^\[\[node\]\]/,/^$/s/^address = "\([^"]*\)".*/\1/p' $config))
say "three nodes run at ${addresses[*]}"

[[ $(redis-cli -h "${addresses[0]}" SET greeting hello) == OK ]]
[[ $(redis-cli -h "${addresses[1]}" GET greeting) == hello ]]
[[ $(weft kv --config $config get greeting) == *hello* ]]
say "one node took a SET, another answers the GET"

systemctl kill --signal KILL weft-node@2
[[ $(redis-cli -h "${addresses[0]}" SET greeting again) == OK ]]
restarted() { [[ $(systemctl show --property NRestarts --value weft-node@2) == 1 ]]; }
until_true restarted
until_true weft status --config $config
[[ $(redis-cli -h "${addresses[2]}" GET greeting) == again ]]
say "a node was killed, systemd started it again, and it serves"

exec 3<>"/dev/tcp/${addresses[0]}/9479"
printf 'GET /metrics HTTP/1.0\r\n\r\n' >&3
grep -q '^weft_' <&3
say "metrics are served"

systemctl stop weft-node@{2,1,0}
for node in 0 1 2; do
    [[ $(systemctl show --property Result --value weft-node@$node) == success ]]
done
say "the nodes stopped in order"

echo 'not = "a cluster"' >$config
systemctl start weft-node@0 || true
until_true systemctl is-failed weft-node@0
# Longer than RestartSec.
sleep 2
[[ $(systemctl show --property ExecMainStatus --value weft-node@0) == 2 ]]
[[ $(systemctl show --property NRestarts --value weft-node@0) == 0 ]]
say "a wrong configuration is not started again and again"

dpkg --purge weft
[[ ! -e /usr/bin/weft ]]
say "passed"
