#!/usr/bin/env bash
# The first process of a node, in namespaces of its own: starts all other programs, and
# again when one has ended.
#
#   node.sh DIR GROUP
#
# DIR has the certificates and kubeconfigs; DIR/lib and DIR/log are the node's /var/lib and
# /var/log, so a hostPath below /var/lib is DIR/lib.
set -euo pipefail

dir=$1 group=$2 pki=$1/pki
hostname node-1

# A kubelet wants mounts that are shared within the node.
mkdir -p "$dir/lib" "$dir/log/pods" "$dir/log/containers"
mount --make-rshared /
mount -t tmpfs -o mode=0755 tmpfs /run
mkdir -p /run/lock
mount --bind "$dir/log" /var/log
mount --bind "$dir/lib" /var/lib

# Kubelet and kube-proxy set variables of the kernel that are the whole machine's: here they
# find files with the values that they want.
mkdir /run/sysctl
for v in vm/overcommit_memory=1 vm/panic_on_oom=0 kernel/panic=10 kernel/panic_on_oops=1 kernel/keys/root_maxkeys=1000000 kernel/keys/root_maxbytes=25000000; do
	file=/run/sysctl/$(basename "${v%=*}")
	echo "${v#*=}" >"$file"
	mount --bind "$file" "/proc/sys/${v%=*}"
done

# A network without a way out. All addresses are set aside for documentation: node 192.0.2.1,
# pods 198.51.100.0/24, services 203.0.113.0/24.
ip link set lo up
ip link add node0 type veth peer name node1
ip address add 192.0.2.1/24 dev node0
ip link set node0 up
ip link set node1 up
ip route add default dev node0
echo 1 >/proc/sys/net/ipv4/ip_forward
# Absent where the kernel has no filter for bridges, and then not needed.
echo 1 2>/dev/null >/proc/sys/net/bridge/bridge-nf-call-iptables || true
mkdir -p /run/cni
cat >/run/cni/10-node.conflist <<END
{"cniVersion": "1.0.0", "name": "node", "plugins": [
  {"type": "bridge", "bridge": "cni0", "isGateway": true, "hairpinMode": true,
   "ipam": {"type": "host-local", "ranges": [[{"subnet": "198.51.100.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}}]}
END

# The node's own programs are in a control group beside those of the pods.
for h in /sys/fs/cgroup /sys/fs/cgroup/*; do
	[[ -d $h/$group ]] || continue
	mkdir -p "$h/$group/system"
	for f in cpuset.cpus cpuset.mems; do
		if [[ -e $h/$group/$f && ! -e $h/cgroup.controllers ]]; then cat "$h/$group/$f" >"$h/$group/system/$f"; fi
	done
	echo $$ >"$h/$group/system/cgroup.procs"
done

# Root may lack CAP_SYS_RESOURCE, without which no process can be made a less likely victim
# of the kernel: restrict_oom_score_adj.
cat >/run/containerd.toml <<END
version = 2
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "docket.test/pause:dev"
  restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".containerd]
  snapshotter = "overlayfs"
[plugins."io.containerd.grpc.v1.cri".cni]
  bin_dir = "/usr/lib/cni"
  conf_dir = "/run/cni"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
END
# Everybody uses the disk: no image is removed for want of room, and no pod before the disk is full.
# A change of a ConfigMap reaches a pod within syncFrequency and the API server's watch.
cat >/run/kubelet.yaml <<END
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
failCgroupV1: false
failSwapOn: false
protectKernelDefaults: true
cgroupDriver: cgroupfs
cgroupRoot: /$group
kubeletCgroups: /$group/system
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
address: 192.0.2.1
healthzBindAddress: 127.0.0.1
tlsCertFile: $pki/kubelet.crt
tlsPrivateKeyFile: $pki/kubelet.key
authentication: {anonymous: {enabled: false}, webhook: {enabled: false}, x509: {clientCAFile: $pki/ca.crt}}
authorization: {mode: AlwaysAllow}
resolvConf: /run/resolv.conf
syncFrequency: 3s
containerLogMonitorInterval: 3s
imageGCHighThresholdPercent: 100
evictionHard: {memory.available: 200Mi, nodefs.available: 1Gi, imagefs.available: 1Gi}
volumeStatsAggPeriod: 3s
END
echo "nameserver 192.0.2.1" >/run/resolv.conf
cat >/run/kube-proxy.yaml <<END
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
clientConnection: {kubeconfig: $dir/kubeconfig}
mode: nftables
detectLocalMode: BridgeInterface
detectLocal: {bridgeInterface: cni0}
conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}
hostnameOverride: node-1
metricsBindAddress: 127.0.0.1:10249
END

# keep PROGRAM ARGS...: start it, and again a second after its end
keep() {
	while :; do
		"$@" >>"$dir/log/$1.log" 2>&1 || true
		sleep 1
	done &
}
keep etcd --data-dir "$dir/etcd" --unsafe-no-fsync --log-level warn
keep containerd --config /run/containerd.toml
keep kube-apiserver --etcd-servers http://127.0.0.1:2379 --bind-address 0.0.0.0 --advertise-address 192.0.2.1 \
	--service-cluster-ip-range 203.0.113.0/24 --tls-cert-file "$pki/server.crt" --tls-private-key-file "$pki/server.key" \
	--token-auth-file "$pki/tokens.csv" --authorization-mode Node,RBAC --enable-admission-plugins NodeRestriction --allow-privileged \
	--kubelet-client-certificate "$pki/server.crt" --kubelet-client-key "$pki/server.key" --kubelet-certificate-authority "$pki/ca.crt" \
	--kubelet-preferred-address-types InternalIP --service-account-issuer https://kubernetes.default.svc \
	--service-account-key-file "$pki/accounts.crt" --service-account-signing-key-file "$pki/accounts.key"
until kubectl --kubeconfig "$dir/kubeconfig" get --raw /readyz >/dev/null 2>&1; do sleep 0.2; done
keep kube-controller-manager --kubeconfig "$dir/kubeconfig" --leader-elect=false --bind-address 127.0.0.1 \
	--root-ca-file "$pki/ca.crt" --use-service-account-credentials --service-account-private-key-file "$pki/accounts.key"
keep kube-scheduler --kubeconfig "$dir/kubeconfig" --leader-elect=false --bind-address 127.0.0.1
keep kubelet --config /run/kubelet.yaml --kubeconfig "$pki/kubelet.kubeconfig" --hostname-override node-1 --node-ip 192.0.2.1
keep kube-proxy --config /run/kube-proxy.yaml
# Process 1 waits for what others leave behind as well.
while :; do
	wait -n || true
	sleep 0.2
done
