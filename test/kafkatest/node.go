package kafkatest

import (
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"text/template"
	"time"

	"github.com/docket-export/docket/test/internal/proc"
)

var (
	//go:embed server.properties.tmpl
	serverProperties string
	//go:embed log4j2.properties
	log4jProperties []byte
)

const (
	// readyLine is the last thing a node says about its start: it is
	// registered, unfenced, and its listeners accept.
	readyLine = "Kafka Server started"
	// startTimeout is far beyond what a start takes; three at a time beside other
	// work have needed 23 s on a small machine.
	startTimeout = 5 * time.Minute
	// clusterID is any 16 bytes in base64url, the same for all nodes.
	clusterID = "ZG9ja2V0LWthZmthdGVzdA"
)

// properties is what server.properties.tmpl asks for.
type properties struct {
	ID         int    // of the node, from 1
	Broker     string // address for clients
	Controller string // address for the other nodes' controllers
	Voters     string // all controllers: "1@host:port,2@..."
	Replicas   int    // of every topic, unless it asks for another number
	MinInSync  int    // replicas that must hold a record before it is acknowledged
	Data       string // directory of the log; newNode sets it
	Secure     *secureProperties
}

// secureProperties is what the template asks for of the listeners where clients
// have to authenticate.
type secureProperties struct {
	SASL, MTLS           string // addresses
	KeyStore, TrustStore string // PEM files
	PlainUser            string // the one user of the mechanism PLAIN
	PlainPassword        string
}

// node is one Kafka process, now running or not.
type node struct {
	properties
	command func(name string, args ...string) *exec.Cmd
	libs    string        // directory of the jars
	dir     string        // the node's own directory
	process *proc.Process // the one started last; nil before
}

// newNode makes the directory of a node below parent. Nothing runs yet.
func newNode(command func(string, ...string) *exec.Cmd, libs, parent string, p properties) (*node, error) {
	n := &node{properties: p, command: command, libs: libs, dir: filepath.Join(parent, "node"+strconv.Itoa(p.ID))}
	n.Data = filepath.Join(n.dir, "data")
	if err := os.MkdirAll(n.dir, 0o755); err != nil {
		return nil, err
	}
	if err := os.WriteFile(n.log4j(), log4jProperties, 0o644); err != nil {
		return nil, err
	}
	tmpl, err := template.New("server.properties").Parse(serverProperties)
	if err != nil {
		return nil, err
	}
	f, err := os.Create(n.config())
	if err != nil {
		return nil, err
	}
	return n, errors.Join(tmpl.Execute(f, n.properties), f.Close())
}

func (n *node) config() string { return filepath.Join(n.dir, "server.properties") }
func (n *node) log4j() string  { return filepath.Join(n.dir, "log4j2.properties") }

// start formats the node's data unless it has some, starts the process and waits
// until it serves.
func (n *node) start() error {
	if err := n.format(); err != nil {
		return err
	}
	p, err := proc.Start(n.java("kafka.Kafka", []string{n.config()},
		"-Xms256m", "-Xmx256m", "-XX:MaxMetaspaceSize=128m", "-XX:+ExitOnOutOfMemoryError"))
	if err != nil {
		return err
	}
	n.process = p
	select {
	case <-p.Log().Seen(readyLine):
		return nil
	case <-p.Done():
		return fmt.Errorf("kafka node %d ended at its start: %s; it said:\n%s", n.ID, p.End(), p.Log().Tail(20))
	case <-time.After(startTimeout):
		p.Kill()
		return fmt.Errorf("kafka node %d is not ready after %v; it said:\n%s", n.ID, startTimeout, p.Log().Tail(20))
	}
}

// format writes the identity of the cluster into an empty data directory.
func (n *node) format() error {
	_, err := os.Stat(filepath.Join(n.Data, "meta.properties"))
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	p, err := proc.Start(n.java("kafka.tools.StorageTool",
		[]string{"format", "--cluster-id", clusterID, "--config", n.config()}, "-Xmx128m"))
	if err != nil {
		return err
	}
	if err := p.Wait(); err != nil {
		return fmt.Errorf("format the data of kafka node %d: %w; it said:\n%s", n.ID, err, p.Log().Tail(20))
	}
	return nil
}

// java is a call of the Java class main; options are further ones for the machine.
func (n *node) java(main string, args []string, options ...string) *exec.Cmd {
	return n.command("java", slices.Concat(jvm(log4jOption(n.log4j())), options, []string{"-cp", filepath.Join(n.libs, "*"), main}, args)...)
}

// jvm are the options of every Java machine here, and more of them. It runs with the
// simplest collector and the first compiler alone, because it lives for seconds and shares
// its cores.
func jvm(more ...string) []string {
	return append([]string{"-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.awt.headless=true"}, more...)
}

// log4jOption names the configuration of a machine's log.
func log4jOption(path string) string { return "-Dlog4j2.configurationFile=" + path }
