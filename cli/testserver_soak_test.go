//go:build soak

package cli

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"
)

// TestPythonProducerConforms tries the Python producer in every scenario.
func TestPythonProducerConforms(t *testing.T) {
	python, producer := needPython(t)
	t.Chdir(t.TempDir())
	writeFile(t, "producer.sh", fmt.Sprintf(`n=0
while [ $n -lt $DOCKET_RECORDS ]; do
	n=$((n + 1))
	echo "{\"n\": $n}"
done | %s %s $DOCKET_ADDRESS || [ $? = 1 ] # a line was refused
`, python, producer))
	cmd := exec.Command("docket", "testserver", "--timeout", "2m", "--", "sh", "producer.sh")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "15 of 15 scenarios passed") {
		t.Errorf("got %v, want every scenario passed:\n%s", err, out)
	}
}
