package main

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/docket-export/docket/bench/process"
	"github.com/docket-export/docket/bench/trial"
)

// The programs of the end-to-end tests, which build them once.
const (
	controlPlane      = ".cache/kubernetes-1.37.1"
	gatekeeperRelease = ".cache/gatekeeper-3.23.1"
)

// checkGatekeeper says whether the programs are there.
func (l *lab) checkGatekeeper() {
	for _, program := range []string{controlPlane + "/kube-apiserver", gatekeeperRelease + "/gatekeeper.yaml"} {
		if _, err := os.Stat(filepath.Join(l.Root, program)); err != nil {
			trial.Check(fmt.Errorf("%w: make e2e builds it, or use -gatekeeper=false", err))
		}
	}
}

// cluster is an API server on loopback, with its etcd.
type cluster struct {
	lab        *lab
	dir        string // with the pair that writePair makes
	kubeconfig string
	server     string // URL of the API server
}

const clusterToken = "administrator"

func (l *lab) startCluster() *cluster {
	dir := l.scratch()
	writePair(dir)
	c := &cluster{lab: l, dir: dir, kubeconfig: filepath.Join(dir, "kubeconfig")}
	etcd, peer, api := "http://"+process.FreeAddress(), "http://"+process.FreeAddress(), process.FreeAddress()
	c.server = "https://" + api
	host, port, err := net.SplitHostPort(api)
	trial.Check(err)
	cert, key := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	for name, text := range map[string]string{
		"tokens.csv": clusterToken + ",admin,admin,system:masters\n",
		"kubeconfig": strings.NewReplacer("SERVER", c.server, "CA", cert, "TOKEN", clusterToken).Replace(`apiVersion: v1
kind: Config
clusters: [{name: bench, cluster: {server: "SERVER", certificate-authority: "CA"}}]
users: [{name: admin, user: {token: TOKEN}}]
contexts: [{name: bench, context: {cluster: bench, user: admin}}]
current-context: bench
`),
	} {
		trial.Check(os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	program := func(name string) string { return filepath.Join(l.Root, controlPlane, name) }
	process.Start(l.T, nil, program("etcd"), "--data-dir", filepath.Join(dir, "etcd"), "--unsafe-no-fsync", "--log-level", "error",
		"--listen-client-urls", etcd, "--advertise-client-urls", etcd,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "default="+peer)
	process.Start(l.T, nil, program("kube-apiserver"), "--etcd-servers", etcd, "--bind-address", host, "--secure-port", port,
		"--advertise-address", "192.0.2.1", "--service-cluster-ip-range", "203.0.113.0/24",
		"--tls-cert-file", cert, "--tls-private-key-file", key, "--token-auth-file", filepath.Join(dir, "tokens.csv"), "--authorization-mode", "RBAC",
		"--service-account-issuer", "https://kubernetes.default.svc", "--service-account-key-file", cert, "--service-account-signing-key-file", key,
		"--disable-admission-plugins", "ServiceAccount")
	l.Poll("for the API server", kafkaAskPause, readyWait, func() bool { return c.kubectl("", "get", "--raw", "/readyz") == nil })
	return c
}

// command is kubectl as the administrator.
func (c *cluster) command(stdin string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(c.lab.Context(), filepath.Join(c.lab.Root, controlPlane, "kubectl"),
		append([]string{"--kubeconfig", c.kubeconfig, "--cache-dir", filepath.Join(c.dir, "kubectl")}, args...)...)
	cmd.Stdin = strings.NewReader(stdin)
	return cmd
}

func (c *cluster) kubectl(stdin string, args ...string) error {
	if out, err := c.command(stdin, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("kubectl %s: %w: %.500s", strings.Join(args, " "), err, out)
	}
	return nil
}

// apply applies manifests, again until all are taken: a kind can be used some time after its definition.
func (c *cluster) apply(manifests string) {
	var last error
	defer func() {
		if last != nil {
			fmt.Fprintln(os.Stderr, "bench:", last)
		}
	}()
	c.lab.Poll("for manifests to be taken", kafkaAskPause, readyWait, func() bool {
		last = c.kubectl(manifests, "apply", "--server-side", "-f", "-")
		return last == nil
	})
}

// gatekeeperPod is the object under whose name Gatekeeper reports its status.
const gatekeeperPod = `apiVersion: v1
kind: Pod
metadata: {name: bench, namespace: gatekeeper-system}
spec:
  securityContext: {runAsNonRoot: true, runAsUser: 1000, seccompProfile: {type: RuntimeDefault}}
  containers:
  - name: manager
    image: gatekeeper
    securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
`

// startGatekeeper starts the webhook of Gatekeeper, with the definitions of its kinds.
func (c *cluster) startGatekeeper() *webhook {
	l := c.lab
	release := filepath.Join(l.Root, gatekeeperRelease)
	var definitions []string
	for manifest := range strings.SplitSeq(string(trial.Must(os.ReadFile(filepath.Join(release, "gatekeeper.yaml")))), "\n---\n") {
		if strings.Contains("\n"+manifest, "\nkind: CustomResourceDefinition\n") || strings.Contains("\n"+manifest, "\nkind: Namespace\n") {
			definitions = append(definitions, manifest)
		}
	}
	c.apply(strings.Join(definitions, "\n---\n"))
	c.apply(gatekeeperPod + "---\n" + shopNamespace)
	address, health := process.FreeAddress(), process.FreeAddress()
	host, port, err := net.SplitHostPort(address)
	trial.Check(err)
	_, metrics, err := net.SplitHostPort(process.FreeAddress())
	trial.Check(err)
	p := process.Start(l.T, []string{"POD_NAMESPACE=gatekeeper-system", "POD_NAME=bench", "NAMESPACE=gatekeeper-system", "CONTAINER_NAME=manager"},
		filepath.Join(release, "gatekeeper"), "--kubeconfig", c.kubeconfig, "--operation", "webhook", "--operation", "status", "--operation", "generate",
		"--disable-cert-rotation", "--cert-dir", c.dir, "--host", host, "--port", port, "--health-addr", health, "--prometheus-port", metrics,
		"--metrics-backend=prometheus", "--shutdown-delay", "0", "--log-level", "ERROR")
	l.awaitOK("http://" + health + "/readyz")
	return &webhook{p, address, false, c.dir}
}

// awaitOK returns when a page answers 200.
func (l *lab) awaitOK(url string) {
	client := &http.Client{Timeout: process.RequestWait, Transport: &http.Transport{DisableKeepAlives: true}}
	l.Poll("for "+url, kafkaAskPause, readyWait, func() bool {
		res, err := client.Get(url)
		if err != nil {
			return false
		}
		return errors.Join(res.Body.Close()) == nil && res.StatusCode == http.StatusOK
	})
}
