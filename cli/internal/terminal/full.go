package terminal

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/term"
)

// Control sequences of a full screen: the alternate screen, which leaves what was there
// before as it is, without a cursor and without lines that wrap.
const (
	enterFull = "\x1b[?1049h\x1b[?25l\x1b[?7l"
	leaveFull = "\x1b[?7h\x1b[?25h\x1b[?1049l"
)

// Full is a terminal that shows one picture over its whole screen.
type Full struct {
	out     *os.File
	keys    *os.File    // the controlling terminal; nil: keys are not read, and Ctrl-C is a signal
	before  *term.State // of keys
	resized chan os.Signal
	quit    chan struct{} // closed at q or Ctrl-C
	read    sync.WaitGroup
}

// NewFull takes over the terminal that w writes to, until Close. It returns false when w is
// not a terminal, or a terminal without control sequences.
func NewFull(w io.Writer) (*Full, bool) {
	out := fileOf(w)
	if !IsTerminal(w) || os.Getenv("TERM") == "dumb" {
		return nil, false
	}
	f := &Full{out: out, resized: make(chan os.Signal, 1), quit: make(chan struct{})}
	signal.Notify(f.resized, syscall.SIGWINCH)
	f.openKeys()
	fmt.Fprint(out, enterFull)
	return f, true
}

// openKeys has keys arrive as they are pressed, and not show. A file of our own can be read
// without waiting for ever, and leaves the standard input as it is.
func (f *Full) openKeys() {
	keys, err := os.OpenFile("/dev/tty", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		return
	}
	if keys.SetReadDeadline(time.Time{}) != nil {
		_ = keys.Close() // could not be told to stop
		return
	}
	if err := f.control(keys, func(fd int) (err error) {
		f.before, err = term.MakeRaw(fd)
		return err
	}); err != nil {
		_ = keys.Close() // Ctrl-C is a signal then
		return
	}
	f.keys = keys
	f.read.Go(f.readKeys)
}

// control calls do with the descriptor of a file that stays non-blocking.
func (*Full) control(file *os.File, do func(fd int) error) error {
	raw, err := file.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	if err := raw.Control(func(fd uintptr) { failed = do(int(fd)) }); err != nil {
		return err
	}
	return failed
}

func (f *Full) readKeys() {
	const ctrlC = 3
	key := make([]byte, 1)
	for {
		if _, err := f.keys.Read(key); err != nil {
			return
		}
		if key[0] == 'q' || key[0] == 'Q' || key[0] == ctrlC {
			close(f.quit)
			return
		}
	}
}

// Quit returns a channel that is closed when the person presses q or Ctrl-C.
func (f *Full) Quit() <-chan struct{} { return f.quit }

// Resized returns a channel that receives when Size may have changed.
func (f *Full) Resized() <-chan os.Signal { return f.resized }

// Size returns 80 by 24 if the terminal does not tell its size.
func (f *Full) Size() (width, height int) {
	width, height, err := term.GetSize(int(f.out.Fd()))
	if err != nil || width <= 0 || height <= 0 {
		return 80, 24
	}
	return width, height
}

// Draw shows lines instead of the previous picture. They must fit the screen.
func (f *Full) Draw(lines []string) error {
	// At once and without clearing first, so that nothing flickers.
	text := "\x1b[H" + strings.Join(lines, "\x1b[K\r\n") + "\x1b[K\x1b[J"
	_, err := f.out.WriteString(text)
	return err
}

// Close restores the terminal.
func (f *Full) Close() {
	signal.Stop(f.resized)
	if f.keys != nil {
		_ = f.keys.SetReadDeadline(time.Now()) // as openKeys could
		f.read.Wait()
		_ = f.control(f.keys, func(fd int) error { return term.Restore(fd, f.before) })
		_ = f.keys.Close() // nothing was written to it
	}
	fmt.Fprint(f.out, leaveFull)
}
