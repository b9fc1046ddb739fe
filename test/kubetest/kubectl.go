package kubetest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/docket-export/docket/test/internal/poll"
)

// kubectlTimeout bounds one run of kubectl, which may make hundreds of objects.
const kubectlTimeout = 5 * time.Minute

// Kubectl runs kubectl as the administrator and returns what it prints. It must
// succeed.
func (c *Cluster) Kubectl(args ...string) string {
	c.t.Helper()
	out, err := c.Try("", args...)
	if err != nil {
		c.t.Fatal(err)
	}
	return out
}

// KubectlProgram is the path of kubectl.
func (c *Cluster) KubectlProgram() string { return filepath.Join(c.programs, "kubectl") }

// Try is Kubectl that may fail, with stdin as its standard input. The error has what
// kubectl said. It may be called from any goroutine.
func (c *Cluster) Try(stdin string, args ...string) (stdout string, err error) {
	ctx, cancel := context.WithTimeout(c.t.Context(), kubectlTimeout)
	defer cancel()
	var out, said bytes.Buffer
	cmd := exec.CommandContext(ctx, c.KubectlProgram(),
		// What it finds out about an API server it keeps for hours, and the next one on
		// this address is another.
		append([]string{"--kubeconfig", c.Kubeconfig, "--cache-dir", c.file("kubectl-cache")}, args...)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &said
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(said.Bytes()))
	}
	return out.String(), nil
}

// Apply applies manifests, again until all of them are taken: the kind that one of
// them defines can be used some seconds later.
func (c *Cluster) Apply(manifests string) {
	c.t.Helper()
	err := poll.Until(startTimeout, func() error {
		_, err := c.Try(manifests, "apply", "--server-side", "-f", "-")
		return err
	})
	if err != nil {
		c.t.Fatal(err)
	}
}

// startTimeout is far beyond what a part of Gatekeeper needs to take up a change.
const startTimeout = 5 * time.Minute

// getOK returns nil when a page answers 200.
func getOK(url string) error {
	client := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get(url)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
		return fmt.Errorf("get %s: %s: %s", url, resp.Status, bytes.TrimSpace(body))
	}
	return nil
}
