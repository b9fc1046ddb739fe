package kafkatest

import (
	_ "embed"
	"testing"

	"github.com/docket-export/docket/test/internal/artifact"
)

// Release is a Kafka that a cluster can run.
type Release struct {
	version string
	pom     []byte // asks for it
}

var (
	//go:embed pom.xml
	pom []byte
	//go:embed v3.pom.xml
	pom39 []byte

	// Current is what clusters run unless a test says otherwise. Transactions are those
	// of KIP-890.
	Current = Release{version: "4.3.1", pom: pom}
	// V3 is the last release before 4.0. Transactions are those of KIP-98.
	V3 = Release{version: "3.9.2", pom: pom39}
)

// jars returns the folder that holds Kafka and what it needs. It ends the test, by
// a skip or a failure, when it cannot be had.
func (r Release) jars(t testing.TB) string {
	return mavenJars(t, artifact.Artifact{
		Name:    "kafka-" + r.version,
		What:    "Kafka " + r.version,
		Recipe:  r.pom,
		Seconds: 30,
	})
}
