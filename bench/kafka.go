package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/docket-export/docket/bench/process"
	"github.com/docket-export/docket/bench/trial"
)

// kafkaPom asks for the release of Kafka that the end-to-end tests run.
const kafkaPom = "test/kafkatest/pom.xml"

// kafkaJars is where fetchKafka puts them.
func (l *lab) kafkaJars() string { return filepath.Join(l.Root, ".cache", "bench-kafka") }

// fetchKafka takes the jars of Kafka from Maven Central, once.
func (l *lab) fetchKafka() {
	dir, pom := l.kafkaJars(), trial.Must(os.ReadFile(filepath.Join(l.Root, kafkaPom)))
	trial.Check(needsPrograms("java", "default-jre-headless"))
	const recipe = "pom.xml" // is there when all jars are
	if made, err := os.ReadFile(filepath.Join(dir, recipe)); err == nil && bytes.Equal(made, pom) {
		return
	}
	trial.Check(needsPrograms("mvn", "maven"))
	fmt.Fprintln(os.Stderr, "bench: downloading Kafka")
	trial.Check(os.MkdirAll(filepath.Dir(dir), 0o755))
	work := trial.Must(os.MkdirTemp(filepath.Dir(dir), "bench-kafka-"))
	l.Cleanup(func() error { return os.RemoveAll(work) })
	trial.Check(os.WriteFile(filepath.Join(work, recipe), pom, 0o644))
	process.Output(l.T, work, "mvn", "-q", "-B", "dependency:copy-dependencies", "-DincludeScope=runtime", "-DoutputDirectory="+work)
	trial.Check(os.RemoveAll(dir))
	trial.Check(os.Rename(work, dir))
}

func needsPrograms(program, pkg string) error {
	if _, err := exec.LookPath(program); err != nil {
		return fmt.Errorf("%w: install the package %s, or use -kafka=false", err, pkg)
	}
	return nil
}

// kafkaCluster is a real Kafka on loopback, with the settings that it comes with except
// for the size of the machine.
type kafkaCluster struct {
	lab     *lab
	brokers []string
	client  *kafka.Client
}

// kafkaProperties are those of a node that is broker and controller.
const kafkaProperties = `process.roles=broker,controller
node.id=%[1]d
controller.quorum.voters=%[2]s
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://%[3]s,CONTROLLER://%[4]s
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs=%[5]s
auto.create.topics.enable=false
default.replication.factor=%[6]d
min.insync.replicas=%[7]d
offsets.topic.replication.factor=%[6]d
offsets.topic.num.partitions=3
transaction.state.log.replication.factor=%[6]d
transaction.state.log.min.isr=%[7]d
transaction.state.log.num.partitions=3
# What was measured makes room at once.
log.segment.delete.delay.ms=0
`

// startKafka starts a cluster that runs until the measurement ends.
func (l *lab) startKafka(nodes int) *kafkaCluster {
	dir := l.scratch()
	c := &kafkaCluster{lab: l}
	var controllers, voters []string
	for i := range nodes {
		c.brokers, controllers = append(c.brokers, process.FreeAddress()), append(controllers, process.FreeAddress())
		voters = append(voters, fmt.Sprintf("%d@%s", i+1, controllers[i]))
	}
	for i := range nodes {
		file := filepath.Join(dir, fmt.Sprint("node", i+1, ".properties"))
		data := filepath.Join(dir, fmt.Sprint("node", i+1))
		properties := fmt.Sprintf(kafkaProperties, i+1, strings.Join(voters, ","), c.brokers[i], controllers[i], data, nodes, nodes/2+1)
		trial.Check(os.WriteFile(file, []byte(properties), 0o600))
		// The identity of a cluster is 16 bytes in base64url.
		process.Output(l.T, "", "java", l.java("kafka.tools.StorageTool", "format", "--cluster-id", "ZG9ja2V0LWJlbmNobWFyaw", "--config", file)...)
		process.Start(l.T, nil, "java", append([]string{"-Xms512m", "-Xmx512m"}, l.java("kafka.Kafka", file)...)...)
	}
	transport := &kafka.Transport{MetadataTTL: kafkaAskPause}
	l.Cleanup(func() error { transport.CloseIdleConnections(); return nil })
	c.client = &kafka.Client{Addr: kafka.TCP(c.brokers...), Timeout: process.RequestWait, Transport: transport}
	l.Poll("for Kafka to start", kafkaAskPause, readyWait, func() bool {
		m, err := c.client.Metadata(l.Context(), &kafka.MetadataRequest{})
		return err == nil && len(m.Brokers) == nodes
	})
	return c
}

// kafkaAskPause is how often a cluster is asked whether it is ready.
const kafkaAskPause = 100 * time.Millisecond

func (l *lab) java(main string, args ...string) []string {
	return append([]string{"-cp", filepath.Join(l.kafkaJars(), "*"), main}, args...)
}

// createTopic makes a topic with a replica on each node, and returns when each partition
// has a leader.
func (c *kafkaCluster) createTopic(name string) {
	c.lab.Poll("for topic "+name, kafkaAskPause, readyWait, func() bool { return c.makeTopic(name) == nil })
}

func (c *kafkaCluster) makeTopic(name string) error {
	ctx := c.lab.Context()
	created, err := c.client.CreateTopics(ctx, &kafka.CreateTopicsRequest{
		Topics: []kafka.TopicConfig{{Topic: name, NumPartitions: partitions, ReplicationFactor: len(c.brokers)}},
	})
	if err != nil {
		return err
	}
	if err := created.Errors[name]; err != nil && !errors.Is(err, kafka.TopicAlreadyExists) {
		return err
	}
	m, err := c.client.Metadata(ctx, &kafka.MetadataRequest{Topics: []string{name}})
	if err != nil {
		return err
	}
	if len(m.Topics) != 1 || len(m.Topics[0].Partitions) != partitions {
		return fmt.Errorf("topic %s has other partitions", name)
	}
	for _, p := range m.Topics[0].Partitions {
		if p.Error != nil || len(p.Isr) != len(c.brokers) {
			return fmt.Errorf("partition %d of topic %s is not ready: %w", p.ID, name, p.Error)
		}
	}
	return nil
}

// deleteTopic makes room on the disk.
func (c *kafkaCluster) deleteTopic(name string) {
	answer := trial.Must(c.client.DeleteTopics(c.lab.Context(), &kafka.DeleteTopicsRequest{Topics: []string{name}}))
	trial.Check(answer.Errors[name])
}
