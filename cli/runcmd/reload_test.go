package runcmd

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/docket-export/docket/cli/builtin"
	"github.com/docket-export/docket/exporter"
	"github.com/docket-export/docket/internal/testlog"
)

// However often the file is looked at, and tried again, the log has a line for each change.
func TestConfigurationInTheLog(t *testing.T) {
	good := []byte("apiVersion: docket.dev/v1alpha1\nkind: Exporter\nsources: [{name: s, unix: {path: s}}]\nqueue: {directory: q}\nsinks: [{name: a, stdout: {}}]\n")
	var log testlog.Buffer
	var applied error
	r := &reloader{
		file: "docket.yaml", kinds: builtin.Kinds(), report: exporter.NewConfigReport("docket.yaml", ""),
		apply: func(*exporter.Config) ([]string, error) { return nil, applied }, log: slog.New(slog.NewTextHandler(&log, nil)),
	}
	for _, step := range []struct {
		text    string
		err     error
		applied error
		want    string
	}{
		{text: string(good), want: "in force"},
		{text: "kind: [", want: "is invalid"},
		{text: "kind: Exporter\n", want: "is invalid"},
		{err: errors.New("no such file"), want: "is invalid"},
		{text: string(good) + "# 2\n", applied: &exporter.UnfinishedError{Parts: []string{"sink a is as it was"}}, want: "but not all of it"},
		{text: string(good) + "# 2\n", applied: &exporter.UnfinishedError{Parts: []string{"sink b is as it was"}}, want: "but not all of it"},
		{text: string(good) + "# 2\n", want: "is in force"},
	} {
		before := len(log.String())
		applied = step.applied
		for range 60 {
			r.look([]byte(step.text), step.err)
		}
		got := log.String()[before:]
		if strings.Count(got, "\n") != 1 || !strings.Contains(got, step.want) {
			t.Errorf("%s: got\n%s\nwant one line with %q", fmt.Sprintf("%.20q, %v, %v", step.text, step.err, step.applied), got, step.want)
		}
	}
}
