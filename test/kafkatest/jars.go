package kafkatest

import (
	"context"
	_ "embed"
	"os"
	"path/filepath"
	"testing"

	"github.com/docket-export/docket/test/internal/artifact"
)

// version is the Kafka release that pom.xml asks for.
const version = "4.3.1"

//go:embed pom.xml
var pom []byte

// jars returns the folder that holds Kafka and what it needs. It ends the test, by
// a skip or a failure, when it cannot be had.
func jars(t testing.TB) string {
	return artifact.Artifact{
		Name:    "kafka-" + version,
		What:    "Kafka " + version,
		Runs:    []string{"java default-jre-headless"},
		Tools:   []string{"mvn maven"},
		Recipe:  pom,
		Seconds: 30,
		Make: func(ctx context.Context, dir string) error {
			if err := os.WriteFile(filepath.Join(dir, "pom.xml"), pom, 0o644); err != nil {
				return err
			}
			return artifact.Run(ctx, dir, "mvn", "-q", "-B", "dependency:copy-dependencies", "-DincludeScope=runtime", "-DoutputDirectory="+dir)
		},
	}.Dir(t)
}
