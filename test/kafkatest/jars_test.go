package kafkatest

import "testing"

// TestJars downloads Kafka, for .ci/run, before the tests that need it are timed.
func TestJars(t *testing.T) { Current.jars(t) }
