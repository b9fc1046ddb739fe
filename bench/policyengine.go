package main

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/docket-export/docket/bench/process"
	"github.com/docket-export/docket/bench/trial"
)

const (
	enginePolicyCount = 10
	// engineRate is how many reviews a second come at a steady rate: some half of what two processors can answer.
	engineRate = 50
	// engineShare is how many records stand for one review, each of which ten policies look at.
	engineShare  = 50
	auditObjects = 20_000
)

// policyEngine measures docket-webhook beside Gatekeeper.
func (l *lab) policyEngine() values {
	a := l.startAdmission()
	templates, constraints := enginePolicies(enginePolicyCount)
	policies := filepath.Join(a.certs, "policies")
	trial.Check(os.Mkdir(policies, 0o700))
	trial.Check(os.WriteFile(filepath.Join(policies, "policies.yaml"), []byte(templates+"---\n"+constraints+"---\n"+shopNamespace), 0o600))
	program := filepath.Join(l.Short, "docket-webhook")
	l.buildEngine(program)
	c := l.startCluster()
	theirs := c.startGatekeeper()
	c.apply(templates)
	c.apply(constraints)
	c.awaitEnforced(enginePolicyCount)

	some := newMix(reviewBytes, deniedOneIn)
	ways := []*way{
		{key: "theirs", to: theirs, reviews: some, loose: true},
		{key: "plain", to: a.startEngine(program, policies, false), reviews: some, loose: true},
		{key: "logged", to: a.startEngine(program, policies, true), reviews: some, loose: true},
	}
	a.open(ways, false)
	v := values{}
	_, waits := a.compare(ways, max(2*tapTurns, l.records/engineShare/tapTurns/4), steadily(engineRate))
	for _, w := range ways {
		v[w.key], v[w.key+"99"] = quantiles(waits[w.key])
	}
	sums, _ := a.compare(ways, max(tapClients, l.records/engineShare/tapTurns), atOnce(tapClients))
	for _, w := range ways {
		v[w.key+"Rate"], v[w.key+"CPU"] = sums[w.key].rate(), sums[w.key].cpuOfMillion()
	}
	a.waitRecorded()
	for _, w := range ways {
		w.to.Kill()
	}
	c.fill(auditObjects)
	v["audit"], v["auditMemory"] = c.audit(program, policies, auditObjects)
	return v
}

// buildEngine builds docket-webhook as it is shipped.
func (l *lab) buildEngine(program string) {
	cmd := exec.CommandContext(l.Context(), "go", "build", "-trimpath", "-ldflags=-s -w", "-o", program, "./cmd/docket-webhook")
	cmd.Dir, cmd.Env = filepath.Join(l.Root, "webhook", "engine"), append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		trial.Check(fmt.Errorf("build docket-webhook: %w: %s", err, out))
	}
}

const shopNamespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop, labels: {team: shop}}\n"

// startEngine starts a docket-webhook with the policies of a directory.
func (a *admission) startEngine(program, policies string, logs bool) *webhook {
	docket := ""
	if logs {
		docket = "unix://" + a.sidecar.socket
	}
	address, health := process.FreeAddress(), process.FreeAddress()
	_, port, err := net.SplitHostPort(address)
	trial.Check(err)
	_, metrics, err := net.SplitHostPort(process.FreeAddress())
	trial.Check(err)
	p := process.Start(a.T, nil, program, "--policy-dir", policies, "--cert-dir", a.certs, "--port", port, "--health-addr", health,
		"--prometheus-port", metrics, "--docket-address", docket)
	a.awaitOK("http://" + health + "/readyz")
	return &webhook{p, address, logs, a.certs}
}

// awaitEnforced returns when Gatekeeper says that it enforces n constraints.
func (c *cluster) awaitEnforced(n int) {
	c.lab.Poll("for Gatekeeper to enforce the policies", kafkaAskPause, readyWait, func() bool {
		out, err := c.command("", "get", "constraints", "-o", "jsonpath={.items[*].status.byPod[*].enforced}").Output()
		return err == nil && bytes.Count(out, []byte("true")) == n
	})
}

// fill makes so many ConfigMaps, of which one in ten is a violation.
func (c *cluster) fill(n int) {
	const clients = 16
	transport := &http.Transport{TLSClientConfig: trusting(c.dir), MaxIdleConnsPerHost: clients}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: readyWait}
	errs := make([]error, clients)
	var running sync.WaitGroup
	for w := range clients {
		running.Go(func() {
			for i := w; i < n && errs[w] == nil; i += clients {
				name := "cart"
				if i%deniedOneIn == 0 {
					name = deniedName
				}
				errs[w] = c.create(client, fmt.Sprintf(`{"metadata": {"name": "%s-%d", "labels": {"app": "cart", "tier": "backend"}}, "data": {"settings": %q}}`,
					name, i, strings.Repeat("x", 512)))
			}
		})
	}
	running.Wait()
	trial.Check(errors.Join(errs...))
}

func (c *cluster) create(client *http.Client, object string) error {
	req, err := http.NewRequestWithContext(c.lab.Context(), http.MethodPost, c.server+"/api/v1/namespaces/shop/configmaps", strings.NewReader(object))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+clusterToken)
	req.Header.Set("Content-Type", "application/json")
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	var text bytes.Buffer
	if _, err = text.ReadFrom(res.Body); err == nil && res.StatusCode != http.StatusCreated {
		err = fmt.Errorf("create a ConfigMap: %s: %.300s", res.Status, &text)
	}
	return err
}

// audit runs one audit, and returns its seconds and the memory that it has had at most, in MB.
func (c *cluster) audit(program, policies string, objects int) (seconds, memory float64) {
	began := time.Now()
	cmd := exec.CommandContext(c.lab.Context(), program, "audit", "--once", "--policy-dir", policies, "--kubeconfig", c.kubeconfig, "--docket-address", "")
	out, err := cmd.Output()
	seconds = time.Since(began).Seconds()
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() != 1 { // there are violations
		trial.Check(fmt.Errorf("audit: %w: %.300s", err, out))
	}
	if found := bytes.Count(out, []byte(deniedName+"-")); found < objects/deniedOneIn {
		trial.Check(fmt.Errorf("an audit tells of %d violations, of %d: %.300s", found, objects/deniedOneIn, out))
	}
	return seconds, float64(cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss) * 1024 / 1e6
}
