// Package nodetest runs a real Kubernetes cluster of one node for the tests of a program: etcd,
// the API server, controller manager, scheduler, kube-proxy and kubelet of a pinned release, which
// are built from their modules, and Debian's containerd and runc.
//
// All of it lives in namespaces of its own, for mounts, network, processes, names and IPC. It
// has no way out, changes nothing on the machine, and is gone when the test program ends, however
// it ends. There is no image registry: a pod uses what is loaded, with imagePullPolicy Never:
//
//	docket.test/docket:dev   docket of this repository
//	docket.test/engine:dev   the program of the folder engine, which sends numbered records
//	docket.test/busybox:dev  /busybox: command [/busybox, sh, -c, ...]
//
// There is no DNS: pods use addresses. Where a node cannot be had a test is skipped, or fails when
// the environment says CI=true. Root is needed.
package nodetest

import (
	"bufio"
	"bytes"
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/docket-export/docket/internal/testcert"
	"github.com/docket-export/docket/test/internal/artifact"
	"github.com/docket-export/docket/test/internal/poll"
	"github.com/docket-export/docket/test/kubetest"
)

var (
	//go:embed life.sh
	lifeScript string
	//go:embed node.sh
	nodeScript string
)

// Node is a running node. Its methods may be called from tests that run side by side.
type Node struct {
	Dir        string // of its files: lib and log are the node's /var/lib and /var/log
	Kubeconfig string // of the administrator, for programs in the node's network
	Address    string // of the node, which pods reach as well

	life  *exec.Cmd
	input io.Closer // life.sh ends with it
	first string    // process id of the node's first process
	path  string    // PATH with the programs of the node
	count int       // of namespaces; guarded by shared.mu
}

// shared is the node of this test program.
var shared struct {
	mu     sync.Mutex
	node   *Node
	failed string // why it could not be started
}

// Main runs the tests of m, ends the node that they have started, and returns the exit code.
//
//	func TestMain(m *testing.M) { os.Exit(nodetest.Main(m)) }
func Main(m *testing.M) int {
	// Tests mostly wait for the kubelet: more of them than processors run at once.
	flag.Parse()
	parallel := flag.Lookup("test.parallel")
	if parallel.Value.String() == parallel.DefValue {
		_ = parallel.Value.Set("6")
	}
	defer func() {
		if shared.node != nil {
			shared.node.end()
		}
	}()
	return m.Run()
}

// Start returns the node of this test program, and starts it for the first test that asks.
func Start(t testing.TB) *Node {
	t.Helper()
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.failed != "" {
		t.Fatalf("there is no node: %s", shared.failed)
	}
	if shared.node == nil {
		check(t)
		began := time.Now()
		n := &Node{Address: "192.0.2.1"}
		if err := n.start(t); err != nil {
			shared.failed = err.Error()
			t.Fatalf("start the node: %v", err)
		}
		shared.node = n
		t.Logf("the node is ready after %.1f s", time.Since(began).Seconds())
	}
	return shared.node
}

// check ends the test where no node can be had.
func check(t testing.TB) {
	t.Helper()
	for _, program := range []string{
		"containerd containerd", "runc runc", "nft nftables", "ip iproute2", "bash bash", "busybox busybox-static",
		"unshare util-linux", "nsenter util-linux", "setpriv util-linux",
	} {
		artifact.Program(t, program)
	}
	if _, err := os.Stat("/usr/lib/cni/bridge"); err != nil {
		unavailable(t, "install the package containernetworking-plugins")
	}
	if os.Geteuid() != 0 {
		unavailable(t, "this needs root")
	}
	// What a node needs of the kernel: namespaces, overlayfs, nftables, a control group of its own.
	const try = `set -e
dir=$(mktemp -d); trap 'rm -rf "$dir"' EXIT; mkdir "$dir/lower" "$dir/upper" "$dir/work" "$dir/all"
unshare --mount --net --pid --uts --ipc --fork --mount-proc sh -ec '
	mount -t overlay -o lowerdir=$0/lower,upperdir=$0/upper,workdir=$0/work overlay $0/all
	ip link add docket0 type veth peer name docket1
	nft add table ip docket' "$dir"
for h in /sys/fs/cgroup /sys/fs/cgroup/memory; do
	if [ -e "$h/cgroup.procs" ]; then mkdir "$h/docket-try-$$"; rmdir "$h/docket-try-$$"; exit; fi
done
echo "no control groups of memory at /sys/fs/cgroup" >&2; exit 1`
	if out, err := exec.Command("sh", "-c", try).CombinedOutput(); err != nil {
		unavailable(t, strings.TrimSpace(string(out)))
	}
}

func unavailable(t testing.TB, why string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf("no node can be had: %s", why)
	}
	t.Skipf("no node can be had: %s", why)
}

// start starts the node, and waits until it can run pods of the repository's images.
func (n *Node) start(t testing.TB) error {
	programs := []string{kubetest.ControlPlane(t), kubetest.NodePrograms(t)}
	n.path = strings.Join(append(programs, os.Getenv("PATH")), ":")
	if err := n.write(t); err != nil {
		return err
	}
	if err := n.live(); err != nil {
		return err
	}
	// It starts while they are built.
	images, err := n.build()
	if err != nil {
		n.end()
		return err
	}
	for _, step := range []struct {
		what string
		do   func() error
	}{
		{"containerd", func() error { return n.try("containerd", "ctr", "version") }},
		{"the images", func() error {
			for _, image := range images {
				if err := n.load(image); err != nil {
					return err
				}
			}
			return nil
		}},
		{"the node", func() error { return n.kubectl("wait", "--for=condition=Ready", "node/node-1", "--timeout=30s") }},
	} {
		if err := poll.Until(startTimeout, step.do); err != nil {
			err = fmt.Errorf("%s: %w\n%s", step.what, err, n.logs())
			n.end()
			return err
		}
	}
	return nil
}

// startTimeout is far beyond what a part of the node needs on a small machine that is busy with more.
const startTimeout = 3 * time.Minute

// write makes the directory of the node with its scripts, certificates and kubeconfigs.
func (n *Node) write(t testing.TB) (err error) {
	// Paths of sockets are short: this one has few bytes.
	//nolint:usetesting // the node outlives the test that starts it
	if n.Dir, err = os.MkdirTemp("", "docket-node-"); err != nil {
		return err
	}
	n.Kubeconfig = filepath.Join(n.Dir, "kubeconfig")
	ca := testcert.NewCA(t)
	server := ca.Issue(t, "kube-apiserver", "localhost", "kubernetes.default.svc", "127.0.0.1", n.Address, "203.0.113.1")
	kubelet := ca.Issue(t, "node-1", n.Address)
	accounts := ca.Issue(t, "service-accounts")
	kubeconfig := func(token string) string {
		return strings.NewReplacer("DIR", n.Dir, "TOKEN", token).Replace(`apiVersion: v1
kind: Config
clusters: [{name: node, cluster: {server: "https://127.0.0.1:6443", certificate-authority: DIR/pki/ca.crt}}]
users: [{name: user, user: {token: TOKEN}}]
contexts: [{name: node, context: {cluster: node, user: user}}]
current-context: node
`)
	}
	for name, text := range map[string]string{
		"life.sh":                lifeScript,
		"node.sh":                nodeScript,
		"kubeconfig":             kubeconfig(adminToken),
		"pki/kubelet.kubeconfig": kubeconfig("kubelet"),
		"pki/tokens.csv":         adminToken + ",admin,admin,system:masters\nkubelet,system:node:node-1,node-1,system:nodes\n",
		"pki/ca.crt":             ca.PEM,
		"pki/server.crt":         server.CertPEM, "pki/server.key": server.KeyPEM,
		"pki/kubelet.crt": kubelet.CertPEM, "pki/kubelet.key": kubelet.KeyPEM,
		"pki/accounts.crt": accounts.CertPEM, "pki/accounts.key": accounts.KeyPEM,
		"log/node.log": "",
	} {
		path := filepath.Join(n.Dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
			return err
		}
	}
	return nil
}

const adminToken = "administrator"

// live starts life.sh, and with it the processes of the node.
func (n *Node) live() error {
	cmd := exec.Command("bash", filepath.Join(n.Dir, "life.sh"), "", n.Dir)
	// The group has the process id of life.sh, which is not known yet: the shell puts it in.
	cmd.Args = []string{"bash", "-c", `exec bash "$0/life.sh" docket-nodetest-$$ "$0" bash "$0/node.sh" "$0" docket-nodetest-$$`, n.Dir}
	cmd.Env = append(os.Environ(), "PATH="+n.path)
	// A signal from the terminal is for the test program.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	var said strings.Builder
	cmd.Stderr = &said
	input, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	output, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	n.life, n.input = cmd, input
	line, err := bufio.NewReader(output).ReadString('\n')
	if err != nil {
		_ = input.Close()
		return fmt.Errorf("life.sh: %w: %s", errors.Join(err, cmd.Wait()), said.String())
	}
	unshare := strings.TrimSpace(line)
	return poll.Until(startTimeout, func() error {
		children, err := os.ReadFile("/proc/" + unshare + "/task/" + unshare + "/children")
		if err != nil {
			return err
		}
		n.first = strings.TrimSpace(string(children))
		if _, err := strconv.Atoi(n.first); err != nil {
			return errors.New("the node has no first process")
		}
		return nil
	})
}

// end ends the node and waits until nothing of it is left.
func (n *Node) end() {
	if n.life == nil {
		return
	}
	_ = n.input.Close()
	if err := n.life.Wait(); err != nil {
		fmt.Fprintln(os.Stderr, "end the node:", err)
	}
}

// Command is a program in the network of the node, with the files of the caller.
func (n *Node) Command(name string, args ...string) *exec.Cmd {
	return n.enter([]string{"-n"}, name, args)
}

// Inside is a program with the network, the files and the processes of the node.
func (n *Node) Inside(name string, args ...string) *exec.Cmd {
	return n.enter([]string{"-m", "-n", "-p", "-u", "-i"}, name, args)
}

func (n *Node) enter(namespaces []string, name string, args []string) *exec.Cmd {
	cmd := exec.Command("nsenter", slices.Concat([]string{"-t", n.first}, namespaces, []string{"--", name}, args)...)
	cmd.Env = append(os.Environ(), "PATH="+n.path, "KUBECONFIG="+n.Kubeconfig)
	return cmd
}

// Docket runs a command of docket on this machine, and returns what it prints.
func (n *Node) Docket(t testing.TB, args ...string) string {
	t.Helper()
	var said bytes.Buffer
	cmd := exec.CommandContext(t.Context(), filepath.Join(n.Dir, "docket"), args...)
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("docket %s: %v: %s", strings.Join(args, " "), err, said.Bytes())
	}
	return string(out)
}

// try runs a program inside and returns what it said where it failed.
func (n *Node) try(what, name string, args ...string) error {
	return run(n.Inside(name, args...), what)
}

func (n *Node) kubectl(args ...string) error {
	return run(n.Kubectl(context.Background(), args...), "kubectl")
}

func run(cmd *exec.Cmd, what string) error {
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", what, err, strings.TrimSpace(string(out)))
	}
	return nil
}

// Kubectl is kubectl as the administrator. It ends with ctx.
func (n *Node) Kubectl(ctx context.Context, args ...string) *exec.Cmd {
	enter := n.Command("kubectl", append([]string{"--cache-dir", filepath.Join(n.Dir, "kubectl")}, args...)...)
	cmd := exec.CommandContext(ctx, enter.Path, enter.Args[1:]...)
	cmd.Env = enter.Env
	return cmd
}

// logs returns the last lines of the node's programs.
func (n *Node) logs() string {
	out, _ := exec.Command("sh", "-c", "tail -n 8 \"$0\"/log/*.log | cut -c 1-300", n.Dir).CombinedOutput()
	return string(out)
}
