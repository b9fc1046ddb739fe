package config

import "strings"

// UnknownKey is the problem that the mapping n has an unknown key. It
// proposes the known key that was most likely meant, or names all of them.
func UnknownKey(n Node, key string, known []string) Problem {
	at, ok := n.Get(key)
	if !ok {
		at = Node{path: join(n.path, keyPath(key)), line: n.line}
	}
	if meant := nearest(key, known); meant != "" {
		return at.Problemf("unknown key, did you mean %q?", meant)
	}
	if len(known) == 0 {
		return at.Problemf("unknown key, no keys are allowed here")
	}
	return at.Problemf("unknown key, known keys: %s", strings.Join(known, ", "))
}

// nearest returns the word that is closest to s, without regard to case, if at
// most a third of it differs; else "".
func nearest(s string, words []string) string {
	found, least := "", 0
	for _, word := range words {
		most := max(1, min(len(s), len(word))/3)
		if len(s)-len(word) > most || len(word)-len(s) > most {
			continue // they differ by more than that in length alone
		}
		d := distance(strings.ToLower(s), strings.ToLower(word))
		if d <= most && (found == "" || d < least) {
			found, least = word, d
		}
	}
	return found
}

// distance is how many letters must be inserted, dropped, replaced, or swapped
// with the next one, to make b of a: "ulr" is one step from "url".
func distance(a, b string) int {
	// Row i holds the distances of a[:i] to every beginning of b.
	var older, old []int
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		older, old, row = old, row, make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			replace := old[j-1]
			if a[i-1] != b[j-1] {
				replace++
			}
			row[j] = min(replace, old[j]+1, row[j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], older[j-2]+1)
			}
		}
	}
	return row[len(b)]
}
