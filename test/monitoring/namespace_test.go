package monitoring

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/docket-export/docket/client/clienttest/await"
	"github.com/docket-export/docket/internal/testcert"
	"github.com/docket-export/docket/test/dockettest"
	"github.com/docket-export/docket/test/internal/freeport"
	"github.com/docket-export/docket/test/internal/poll"
)

// A Prometheus that is elsewhere scrapes the metrics listener: in a network namespace of its
// own, over TLS on both sides. It finds nothing else there.
func TestOtherNetwork(t *testing.T) {
	needRoot(t, "make a network namespace")
	const here, there = "198.18.53.1", "198.18.53.2" // for tests of networks, by RFC 2544
	name := network(t, here, there)
	addresses, err := freeport.Loopback(2)
	if err != nil {
		t.Fatal(err)
	}
	port := func(i int) string { _, p, _ := strings.Cut(addresses[i], ":"); return p }

	ca := testcert.NewCA(t)
	server, prometheus := ca.Issue(t, here), ca.Issue(t, "prometheus")
	d := dockettest.New(t)
	d.Start(d.Config(dockettest.UnixSource("api", d.Socket)) +
		fmt.Sprintf("metrics: {address: %q, tls: {certFile: %q, keyFile: %q, clientCAFile: %q}}\n", here+":"+port(0), server.CertFile, server.KeyFile, ca.File))
	d.Send([]byte(`{"decision":"deny"}` + "\n"))

	p := startPrometheus(t, there+":"+port(1), faster(t), fmt.Sprintf(`- job_name: docket
  scheme: https
  tls_config: {ca_file: %q, cert_file: %q, key_file: %q}
  static_configs: [{targets: [%q]}]
- job_name: stranger
  scheme: https
  tls_config: {ca_file: %q}
  static_configs: [{targets: [%q]}]
`, ca.File, prometheus.CertFile, prometheus.KeyFile, here+":"+port(0), ca.File, here+":"+port(0)), "ip", "netns", "exec", name)
	err = poll.Until(await.Left(t), func() error {
		for expr, want := range map[string]float64{`docket_records_stored_total{job="docket"}`: 1, `up{job="docket"}`: 1, `up{job="stranger"}`: 0} {
			got, err := p.query(expr)
			if err != nil {
				return err
			}
			if len(got) != 1 || got[0].value != want {
				return fmt.Errorf("%s is %v, want %v", expr, got, want)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	d.Kill()
	began := time.Now()
	if err := poll.Until(await.Left(t), func() error {
		got, err := p.query(`ALERTS{alertname="DocketDown", alertstate="firing"}`)
		if err == nil && len(got) == 0 {
			err = fmt.Errorf("DocketDown does not fire")
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	t.Logf("DocketDown fires %.1f s after docket was killed", time.Since(began).Seconds())
}

// network makes a network namespace that reaches this one at address here, and is reached
// at there. It ends with the test.
func network(t *testing.T, here, there string) (name string) {
	t.Helper()
	name = fmt.Sprintf("docket%d", os.Getpid())
	run := func(command string) {
		t.Helper()
		if out, err := exec.Command("sh", "-c", command).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", command, err, out)
		}
	}
	run("ip netns add " + name)
	// Its end of the pair goes with it, and so does ours.
	t.Cleanup(func() { run("ip netns del " + name) })
	pair := fmt.Sprintf("d%d", os.Getpid())
	run(fmt.Sprintf("ip link add %sa type veth peer name %sb netns %s", pair, pair, name))
	run(fmt.Sprintf("ip addr add %s/30 dev %sa && ip link set %sa up", here, pair, pair))
	run(fmt.Sprintf("ip -n %s addr add %s/30 dev %sb && ip -n %s link set %sb up && ip -n %s link set lo up", name, there, pair, name, pair, name))
	return name
}
