package sendcmd

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/docket-export/docket/client/clienttest/conformance"
)

// findProgram replaces the name of the program with its path.
func findProgram(command []string) ([]string, error) {
	path, err := exec.LookPath(command[0])
	if err != nil {
		return nil, fmt.Errorf("start the producer: %w", err)
	}
	return append([]string{path}, command[1:]...), nil
}

// commandProducer is a producer that is a program. What it prints goes to said.
func commandProducer(command []string, said *outputTail) conformance.Producer {
	return func(ctx context.Context, address string, records int) error {
		cmd := exec.CommandContext(ctx, command[0], command[1:]...)
		cmd.Env = append(os.Environ(), "DOCKET_ADDRESS="+address, fmt.Sprintf("DOCKET_RECORDS=%d", records))
		cmd.Stdout, cmd.Stderr = said, said
		// It may be a shell that has started others: they end together.
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
		cmd.WaitDelay = time.Second
		return cmd.Run()
	}
}

// outputTail keeps the end of what a program prints: there is the reason when it
// failed.
type outputTail struct {
	mu   sync.Mutex
	text []byte
	cut  bool
}

// tailBytes are about 30 lines.
const tailBytes = 2 << 10

// Write is part of io.Writer. It never fails.
func (o *outputTail) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text = append(o.text, p...)
	if n := len(o.text) - tailBytes; n > 0 {
		o.text, o.cut = append(o.text[:0], o.text[n:]...), true
	}
	return len(p), nil
}

// String returns it, from the beginning of a line on.
func (o *outputTail) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	text := string(o.text)
	if o.cut {
		if _, rest, ok := strings.Cut(text, "\n"); ok {
			text = rest
		}
	}
	return text
}
