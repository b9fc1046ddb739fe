package kubetest

import (
	"context"
	_ "embed"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/docket-export/docket/test/internal/artifact"
)

// The releases that the files of testdata ask for.
const (
	kubernetesVersion = "1.37.1"
	gatekeeperVersion = "3.23.1"
)

var (
	//go:embed testdata/kubernetes.mod
	kubernetesModule []byte
	//go:embed testdata/gatekeeper.mod
	gatekeeperModule []byte
)

// ControlPlane returns the folder with etcd, kube-apiserver and kubectl.
func ControlPlane(t testing.TB) string {
	return kubernetes(t, artifact.Artifact{
		Name:    "kubernetes-" + kubernetesVersion,
		What:    "the control plane of Kubernetes " + kubernetesVersion,
		Seconds: 430,
	}, "go.etcd.io/etcd/server/v3", "k8s.io/kubernetes/cmd/kubectl", "k8s.io/kubernetes/cmd/kube-apiserver")
}

// NodePrograms returns the folder with what a node needs beside the control plane: kubelet,
// kube-controller-manager, kube-scheduler and kube-proxy.
func NodePrograms(t testing.TB) string {
	// The packages that it shares with the control plane are in the build cache then.
	ControlPlane(t)
	const commands = "k8s.io/kubernetes/cmd/"
	return kubernetes(t, artifact.Artifact{
		Name:    "kubernetes-node-" + kubernetesVersion,
		What:    "the node of Kubernetes " + kubernetesVersion,
		Seconds: 250,
	}, commands+"kubelet", commands+"kube-controller-manager", commands+"kube-scheduler", commands+"kube-proxy")
}

// kubernetes returns the folder of a, with programs that it builds from kubernetesModule.
// Each has the name of its package's folder; etcd's package is its server.
func kubernetes(t testing.TB, a artifact.Artifact, packages ...string) string {
	a.Recipe = kubernetesModule
	a.Make = func(ctx context.Context, dir string) error {
		if err := os.WriteFile(filepath.Join(dir, "go.mod"), kubernetesModule, 0o644); err != nil {
			return err
		}
		// Without its version kubectl takes the API server for one of long ago.
		const version = "-X k8s.io/component-base/version."
		flags := "-ldflags=-s -w " + version + "gitVersion=v" + kubernetesVersion + " " + version + "gitMajor=1 " + version + "gitMinor=37"
		// One after the other: the linker of each needs a gigabyte and more.
		for _, pkg := range packages {
			name := path.Base(pkg)
			if strings.HasPrefix(pkg, "go.etcd.io/etcd/") {
				name = "etcd"
			}
			err := artifact.Run(ctx, dir, "go", "build", "-mod=mod", "-buildvcs=false", "-trimpath", flags, "-o", name, pkg)
			if err != nil {
				return err
			}
		}
		return nil
	}
	return a.Dir(t)
}

// gatekeeperRelease returns the folder with the program gatekeeper and the manifests
// of its release, gatekeeper.yaml.
func gatekeeperRelease(t testing.TB) string {
	return artifact.Artifact{
		Name:    "gatekeeper-" + gatekeeperVersion,
		What:    "Gatekeeper " + gatekeeperVersion,
		Recipe:  gatekeeperModule,
		Seconds: 160,
		Make: func(ctx context.Context, dir string) error {
			source, err := gatekeeperSource(ctx, dir)
			if err != nil {
				return err
			}
			if err := buildGatekeeper(ctx, dir); err != nil {
				return err
			}
			manifests, err := os.ReadFile(filepath.Join(source, "deploy", "gatekeeper.yaml"))
			if err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(dir, "gatekeeper.yaml"), manifests, 0o644)
		},
	}.Dir(t)
}

// GatekeeperProgram returns the path of the program, which pods can run: it is static.
func GatekeeperProgram(t testing.TB) string {
	t.Helper()
	return filepath.Join(gatekeeperRelease(t), "gatekeeper")
}

// GatekeeperImage is the name that Gatekeeper's chart gives its image, less the repository.
const GatekeeperImage = "gatekeeper:v" + gatekeeperVersion

// GatekeeperChart returns the folder with Gatekeeper's Helm chart.
func GatekeeperChart(t testing.TB) string {
	t.Helper()
	return artifact.Artifact{
		Name:    "gatekeeper-chart-" + gatekeeperVersion,
		What:    "the chart of Gatekeeper " + gatekeeperVersion,
		Recipe:  gatekeeperModule,
		Seconds: 10,
		Make: func(ctx context.Context, dir string) error {
			source, err := gatekeeperSource(ctx, dir)
			if err != nil {
				return err
			}
			return os.CopyFS(dir, os.DirFS(filepath.Join(source, "charts", "gatekeeper")))
		},
	}.Dir(t)
}

// gatekeeperPackage is the module of Gatekeeper and its program.
const gatekeeperPackage = "github.com/open-policy-agent/gatekeeper/v3"

// gatekeeperSource makes dir a module that requires Gatekeeper, and returns the folder
// with Gatekeeper's source, which must stay as it is.
func gatekeeperSource(ctx context.Context, dir string) (string, error) {
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), gatekeeperModule, 0o644); err != nil {
		return "", err
	}
	return moduleSource(ctx, dir, gatekeeperPackage)
}

// buildGatekeeper builds the program gatekeeper in the module of dir. The benchmarks of
// docket-webhook compare it.
func buildGatekeeper(ctx context.Context, dir string, flags ...string) error {
	args := slices.Concat([]string{"build", artifact.Inlined, "-mod=mod", "-buildvcs=false", "-trimpath", "-ldflags=-s -w", "-o", "gatekeeper"}, flags, []string{gatekeeperPackage})
	return artifact.Run(ctx, dir, "go", args...)
}
