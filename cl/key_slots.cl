// A slot for each distinct key of a column, and the first row with that key.
//
//   key_slots   slot = hash of the key; while another key has it: the next slot
//               the slot is empty: the key is written there by a compare-and-swap
//               first_rows[slot] = min(first_rows[slot], row);  of_rows[row] = slot
//
// The table is open addressing with linear probing. Unlike the tables in koel's other files it is not canonical: which
// of two keys has the first slot depends on timing, and so does whether 128 probes suffice. The least row of a key does
// not, so callers number groups by first rows. If the table is small enough for the L2 cache, a row takes two reads from
// that cache, and atomics are as few as new keys and new first rows.
//
//   KOEL_KEY_BITS   32 or 64
//   KOEL_PROBES     slots that a key tries. If none is free, `failed` is set, and the results are invalid.
//
// An empty slot contains 0. The key 0 has a slot of its own, after all others.

#if KOEL_KEY_BITS == 64
typedef ulong key_type;
#define SEEN_KEY(at) seen64(at)
#define SWAP_KEY(at, old, new) atom_cmpxchg(at, old, new)
#else
typedef uint key_type;
#define SEEN_KEY(at) seen32(at)
#define SWAP_KEY(at, old, new) atomic_cmpxchg(at, old, new)
#endif

__kernel GROUP_SIZE void key_slots(__global const key_type *keys, const ulong len, __global key_type *table,
                                   const uint bits, __global uint *first_rows, __global uint *of_rows,
                                   __global uint *failed) {
    ulong row = get_global_id(0);
    // After a failure, the rows that have not started do not search in a full table.
    if (row >= len || seen32(failed)) return;
    key_type key = keys[row];
    uint slots = 1u << bits, slot = slots;
    if (key != 0) {
        slot = (uint)(mix_64(key, (ulong4)(0, 1, 1, 0)) >> (64 - bits));
        for (uint probes = 0;; probes++) {
            if (probes == KOEL_PROBES) {
                atomic_or(failed, 1u);
                return;
            }
            key_type there = SEEN_KEY(&table[slot]);
            if (there == 0) there = SWAP_KEY(&table[slot], (key_type)0, key);
            if (there == 0 || there == key) break;
            slot = (slot + 1) & (slots - 1);
        }
    }
    if (seen32(&first_rows[slot]) > (uint)row) atomic_min(&first_rows[slot], (uint)row);
    of_rows[row] = slot;
}
