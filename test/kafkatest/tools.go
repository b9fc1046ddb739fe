package kafkatest

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/docket-export/docket/test/internal/artifact"
)

// tools are Kafka's own commands, by their main classes, as a distribution has them.
var tools = map[string]string{
	"kafka-acls":             "org.apache.kafka.tools.AclCommand",
	"kafka-configs":          "kafka.admin.ConfigCommand",
	"kafka-console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
	"kafka-consumer-groups":  "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
	"kafka-topics":           "org.apache.kafka.tools.TopicCommand",
	"kafka-transactions":     "org.apache.kafka.tools.TransactionsCommand",
}

//go:embed tools-log4j2.properties
var toolsLog4jProperties []byte

// Tools returns a folder with the scripts that a distribution of Kafka has in bin:
// kafka-console-consumer.sh and the like. They need java in
// PATH. The folder ends with the test, which is skipped, or fails, as with Start.
func Tools(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	log4j := filepath.Join(dir, "log4j2.properties")
	if err := os.WriteFile(log4j, toolsLog4jProperties, 0o600); err != nil {
		t.Fatal(err)
	}
	lib := Current.jars(t)
	for name, class := range tools {
		script := fmt.Sprintf("#!/bin/sh\nexec java %s -cp '%s/*' %s \"$@\"\n", strings.Join(jvm("-Xmx256m", log4jOption(log4j)), " "), lib, class)
		if err := os.WriteFile(filepath.Join(dir, name+".sh"), []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// mavenJars returns the folder of an artifact whose recipe is a pom.xml: what that
// depends on.
func mavenJars(t testing.TB, a artifact.Artifact) string {
	t.Helper()
	a.Runs, a.Tools = []string{"java default-jre-headless"}, []string{"mvn maven"}
	a.Make = func(ctx context.Context, dir string) error {
		if err := os.WriteFile(filepath.Join(dir, "pom.xml"), a.Recipe, 0o644); err != nil {
			return err
		}
		return artifact.Run(ctx, dir, "mvn", "-q", "-B", "dependency:copy-dependencies", "-DincludeScope=runtime", "-DoutputDirectory="+dir)
	}
	return a.Dir(t)
}
