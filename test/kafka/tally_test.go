package kafka

import (
	"strings"
	"testing"
)

// TestTally shows that the verdict of TestChaos sees what is wrong.
func TestTally(t *testing.T) {
	of := func(offset int64, number int) message {
		return message{offset: offset, key: []byte(keyOfNumber(number)), value: []byte(line(1, number))}
	}
	changed := of(3, 4)
	changed.value = []byte(strings.Replace(line(1, 4), "xx", "xy", 1))
	tests := map[string]struct {
		messages    []message
		twice, lost int
		wrong       string
	}{
		"each once":        {messages: []message{of(0, 1), of(1, 2), of(2, 3), of(3, 4)}},
		"twice":            {messages: []message{of(0, 1), of(1, 2), of(2, 1), of(3, 3), of(4, 4), of(5, 4)}, twice: 2},
		"lost":             {messages: []message{of(0, 1), of(1, 3)}, lost: 2},
		"read again":       {messages: []message{of(0, 1), of(1, 2), of(0, 1), of(2, 3), of(3, 4)}},
		"control messages": {messages: []message{of(0, 1), {offset: 1, control: true}, of(2, 2), of(3, 3), of(4, 4)}},
		"another order":    {messages: []message{of(0, 13), of(1, 1), of(2, 2), of(3, 3), of(4, 4)}, wrong: "line 1 comes after 13"},
		"another value":    {messages: []message{of(0, 1), of(1, 2), of(2, 3), changed}, lost: 1, wrong: "want"},
		"another key":      {messages: []message{{key: []byte("k2"), value: []byte(line(1, 1))}, of(1, 2), of(2, 3), of(3, 4)}, lost: 1, wrong: `want "k1"`},
		"of the zombie":    {messages: []message{of(0, 1), of(1, 2), of(2, 3), of(3, 4), {offset: 4, value: []byte(`{"from":"the zombie"}`)}}, wrong: "the zombie"},
	}
	p := &producer{id: 1}
	p.acknowledged.Store(4)
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := newTally()
			for _, m := range test.messages {
				got.take(m)
			}
			lost := len(got.lost(&load{producers: []*producer{p}}))
			if got.twice() != test.twice || lost != test.lost {
				t.Errorf("got %d twice, %d lost; want %d, %d", got.twice(), lost, test.twice, test.lost)
			}
			if wrong := strings.Join(got.wrong, "\n"); !strings.Contains(wrong, test.wrong) || (wrong == "") != (test.wrong == "") {
				t.Errorf("got %q, want %q in it", wrong, test.wrong)
			}
		})
	}
}
