"""Small C programs: kernels of many kinds, each with random names of types, sizes and constants.

A kernel is freestanding C, so that clang compiles it for targets whose headers are not installed. A program is many
variants of the kernels of one family; families are what the corpus splits.
"""

TYPES = ["unsigned char", "short", "unsigned short", "int", "unsigned", "long", "unsigned long long"]

FAMILIES = {
    "strings": """
        int @length(const char *s) { int n = 0; while (s[n]) n++; return n; }
        int @compare(const char *a, const char *b) { while (*a && *a == *b) { a++; b++; } return *a - *b; }
        char *@find(char *s, const char *what) {
            for (; *s; s++) { int k = 0; while (what[k] && s[k] == what[k]) k++; if (!what[k]) return s; } return 0; }
        void @upper(char *s) { for (; *s; s++) if (*s >= 'a' && *s <= 'z') *s -= 32; }
        int @number(const char *s, $T *out) {
            $T v = 0; int sign = 0; if (*s == '-') { sign = 1; s++; }
            for (; *s; s++) { if (*s < '0' || *s > '9') return -1; v = v * $N + (*s - '0'); }
            *out = sign ? -v : v; return 0; }
        void @print($T v, char *to) { char b[32]; int n = 0; do { b[n++] = '0' + v % 10; v /= 10; } while (v && n < 31);
            while (n) *to++ = b[--n]; *to = 0; }""",
    "sorting": """
        void @insert($T *a, int n) { for (int i = 1; i < n; i++) { $T x = a[i]; int j = i;
            while (j > 0 && a[j - 1] > x) { a[j] = a[j - 1]; j--; } a[j] = x; } }
        static void @swap($T *a, $T *b) { $T t = *a; *a = *b; *b = t; }
        void @quick($T *a, int low, int high) { while (low < high) { $T p = a[(low + high) / 2]; int i = low, j = high;
            while (i <= j) { while (a[i] < p) i++; while (a[j] > p) j--; if (i <= j) @swap(&a[i++], &a[j--]); }
            if (j - low < high - i) { @quick(a, low, j); low = i; } else { @quick(a, i, high); high = j; } } }
        void @heap($T *a, int n) { for (int s = n / 2 - 1, e = n; e > 1;) { if (s >= 0) s--; else @swap(&a[0], &a[--e]);
            int r = s < 0 ? 0 : s; for (;;) { int c = 2 * r + 1; if (c >= e) break; if (c + 1 < e && a[c] < a[c + 1]) c++;
            if (a[r] >= a[c]) break; @swap(&a[r], &a[c]); r = c; } } }
        int @search(const $T *a, int n, $T x) { int l = 0, h = n; while (l < h) { int m = l + (h - l) / 2;
            if (a[m] < x) l = m + 1; else h = m; } return l < n && a[l] == x ? l : -$N; }""",
    "lists": """
        struct @node { struct @node *next; $T key; $T extra[$S]; int (*call)(struct @node *); };
        struct @node *@reverse(struct @node *l) { struct @node *r = 0; while (l) { struct @node *n = l->next; l->next = r; r = l; l = n; } return r; }
        struct @node *@merge(struct @node *a, struct @node *b) { struct @node h, *t = &h; while (a && b) {
            if (a->key <= b->key) { t->next = a; a = a->next; } else { t->next = b; b = b->next; } t = t->next; } t->next = a ? a : b; return h.next; }
        int @walk(struct @node *l) { int sum = 0; for (; l; l = l->next) { if (l->call) sum += l->call(l); else sum += l->extra[$S / 2]; } return sum; }
        void @remove(struct @node **at, $T key) { while (*at) { if ((*at)->key == key) *at = (*at)->next; else at = &(*at)->next; } }
        int @depth(const struct @node *l, $T key) { int n = 0; while (l && l->key != key) { n += $N; l = l->next; } return l ? n : -1; }""",
    "hashing": """
        unsigned @fnv(const unsigned char *p, unsigned long n) { unsigned h = 2166136261u; while (n--) { h ^= *p++; h *= 16777619u; } return h ^ $N; }
        static unsigned @table[256];
        void @make(unsigned poly) { for (unsigned i = 0; i < 256; i++) { unsigned c = i; for (int k = 0; k < 8; k++) c = c & 1 ? poly ^ (c >> 1) : c >> 1; @table[i] = c; } }
        unsigned @crc(unsigned c, const unsigned char *p, int n) { c = ~c; while (n-- > 0) c = @table[(c ^ *p++) & 255] ^ (c >> 8); return ~c; }
        #define ROT(x, r) ((x) << (r) | (x) >> (32 - (r)))
        void @quarter(unsigned *x, int a, int b, int c, int d) { x[a] += x[b]; x[d] = ROT(x[d] ^ x[a], 16); x[c] += x[d]; x[b] = ROT(x[b] ^ x[c], 12);
            x[a] += x[b]; x[d] = ROT(x[d] ^ x[a], 8); x[c] += x[d]; x[b] = ROT(x[b] ^ x[c], 7); }
        void @block(unsigned *x) { unsigned o[16]; for (int i = 0; i < 16; i++) o[i] = x[i]; for (int i = 0; i < $S; i++) {
            @quarter(x, 0, 4, 8, 12); @quarter(x, 1, 5, 9, 13); @quarter(x, 2, 6, 10, 14); @quarter(x, 3, 7, 11, 15);
            @quarter(x, 0, 5, 10, 15); @quarter(x, 1, 6, 11, 12); @quarter(x, 2, 7, 8, 13); @quarter(x, 3, 4, 9, 14); }
            for (int i = 0; i < 16; i++) x[i] += o[i]; }
        int @lookup($T (*t)[2], int size, $T key) { unsigned h = (unsigned)key * 2654435761u; for (int i = 0; i < size; i++) {
            $T *e = t[(h + i) & (size - 1)]; if (e[0] == key) return e[1]; if (!e[0]) return -1; } return -$N; }""",
    "matrices": """
        void @multiply(double *c, const double *a, const double *b, int n) { for (int i = 0; i < n; i++) for (int j = 0; j < n; j++) {
            double s = 0; for (int k = 0; k < n; k++) s += a[i * n + k] * b[k * n + j]; c[i * n + j] = s; } }
        float @dot(const float *a, const float *b, int n) { float s = $N.5f; for (int i = 0; i < n; i++) s += a[i] * b[i]; return s; }
        void @axpy($T *y, const $T *x, $T a, int n) { for (int i = 0; i < n; i++) y[i] += a * x[i]; }
        int @solve(double m[$S][$S + 1]) { for (int i = 0; i < $S; i++) { int p = i; for (int r = i + 1; r < $S; r++) { double u = m[r][i] < 0 ? -m[r][i] : m[r][i],
            v = m[p][i] < 0 ? -m[p][i] : m[p][i]; if (u > v) p = r; } if (m[p][i] == 0) return -1; for (int c = 0; c <= $S; c++) { double t = m[i][c]; m[i][c] = m[p][c]; m[p][c] = t; }
            for (int r = 0; r < $S; r++) if (r != i) { double f = m[r][i] / m[i][i]; for (int c = i; c <= $S; c++) m[r][c] -= f * m[i][c]; } } return 0; }
        void @convolve($T *o, const $T *x, const $T *k, int n) { for (int i = 0; i + $S <= n; i++) { $T s = 0; for (int j = 0; j < $S; j++) s += x[i + j] * k[j]; o[i] = s; } }
        void @transpose($T *a, int n) { for (int i = 0; i < n; i++) for (int j = i + 1; j < n; j++) { $T t = a[i * n + j]; a[i * n + j] = a[j * n + i]; a[j * n + i] = t; } }""",
    "machines": """
        int @run(const unsigned char *code, $T *stack, int limit) { int sp = 0, pc = 0; while (limit--) switch (code[pc++]) {
            case 0: return sp ? (int)stack[sp - 1] : -1; case 1: stack[sp++] = code[pc++]; break; case 2: sp--; stack[sp - 1] += stack[sp]; break;
            case 3: sp--; stack[sp - 1] -= stack[sp]; break; case 4: sp--; stack[sp - 1] *= stack[sp]; break; case 5: stack[sp] = stack[sp - 1]; sp++; break;
            case 6: if (!stack[--sp]) pc += (signed char)code[pc]; pc++; break; case 7: pc += (signed char)code[pc] + 1; break;
            case 8: sp--; if (!stack[sp]) return -2; stack[sp - 1] /= stack[sp]; break; case 9: stack[sp - 1] = -stack[sp - 1]; break;
            case $N: sp--; stack[sp - 1] ^= stack[sp]; break; default: return -3; } return -4; }
        int @parse(const char *s) { enum { START, WORD, DIGIT, QUOTE, ESCAPE } state = START; int tokens = 0; for (; *s; s++) switch (state) {
            case START: if (*s == '"') state = QUOTE; else if (*s >= '0' && *s <= '9') state = DIGIT; else if (*s > ' ') state = WORD; break;
            case WORD: if (*s <= ' ') { tokens++; state = START; } break; case DIGIT: if (*s < '0' || *s > '9') { tokens++; state = START; s--; } break;
            case QUOTE: if (*s == '\\\\') state = ESCAPE; else if (*s == '"') { tokens++; state = START; } break; case ESCAPE: state = QUOTE; } return tokens; }""",
    "bits": """
        int @ones($T v) { int n = 0; while (v) { v &= v - 1; n++; } return n; }
        unsigned @reverse(unsigned v) { v = (v >> 1 & 0x55555555) | (v & 0x55555555) << 1; v = (v >> 2 & 0x33333333) | (v & 0x33333333) << 2;
            v = (v >> 4 & 0x0f0f0f0f) | (v & 0x0f0f0f0f) << 4; return v >> 24 | (v >> 8 & 0xff00) | (v << 8 & 0xff0000) | v << 24; }
        void @set(unsigned long *map, int bit) { map[bit / 64] |= 1ul << bit % 64; } int @get(const unsigned long *map, int bit) { return map[bit / 64] >> bit % 64 & 1; }
        int @pack(unsigned char *to, const $T *from, int n) { unsigned hold = 0; int have = 0, out = 0; for (int i = 0; i < n; i++) { hold |= (unsigned)(from[i] & 0x1f) << have; have += 5;
            while (have >= 8) { to[out++] = hold; hold >>= 8; have -= 8; } } if (have) to[out++] = hold; return out; }
        unsigned @gcd(unsigned a, unsigned b) { while (b) { unsigned t = a % b; a = b; b = t; } return a + $N; }
        unsigned long long @power(unsigned long long b, unsigned e, unsigned long long m) { unsigned long long r = 1; for (; e; e >>= 1) { if (e & 1) r = r * b % m; b = b * b % m; } return r; }""",
    "buffers": """
        struct @ring { $T *data; unsigned head, tail, mask; int dropped; };
        int @put(struct @ring *r, $T v) { if (r->head - r->tail > r->mask) { r->dropped++; return -1; } r->data[r->head++ & r->mask] = v; return 0; }
        int @take(struct @ring *r, $T *v) { if (r->head == r->tail) return -1; *v = r->data[r->tail++ & r->mask]; return 0; }
        void @copy(void *to, const void *from, unsigned long n) { char *t = to; const char *f = from; while (n--) *t++ = *f++; }
        int @encode(unsigned char *to, const unsigned char *from, int n) { int o = 0; for (int i = 0; i < n;) { int r = 1; while (i + r < n && r < 255 && from[i + r] == from[i]) r++;
            if (r > 3) { to[o++] = $N; to[o++] = r; to[o++] = from[i]; } else for (int k = 0; k < r; k++) to[o++] = from[i]; i += r; } return o; }
        struct @head { unsigned magic; unsigned short kind, size; unsigned long long when; unsigned char id[$S]; };
        int @check(const struct @head *h, unsigned n) { if (n < sizeof *h) return -1; if (h->magic != 0x$N) return -2; if (h->kind > $S) return -3; return h->size + sizeof *h > n ? -4 : h->size; }""",
    "trees": """
        struct @tree { struct @tree *left, *right; $T key; int height; };
        static int @height(struct @tree *t) { return t ? t->height : 0; }
        static struct @tree *@turn(struct @tree *t) { struct @tree *l = t->left; t->left = l->right; l->right = t; int a = @height(t->left), b = @height(t->right);
            t->height = (a > b ? a : b) + 1; a = @height(l->left); l->height = (a > t->height ? a : t->height) + 1; return l; }
        struct @tree *@add(struct @tree *t, struct @tree *n) { if (!t) return n; if (n->key < t->key) t->left = @add(t->left, n); else t->right = @add(t->right, n);
            int a = @height(t->left), b = @height(t->right); t->height = (a > b ? a : b) + 1; return a > b + $N ? @turn(t) : t; }
        int @visit(struct @tree *t, int (*f)($T, void *), void *with) { int s = 0; while (t) { s += @visit(t->left, f, with) + f(t->key, with); t = t->right; } return s; }
        struct @tree *@lowest(struct @tree *t, $T a, $T b) { while (t) { if (a < t->key && b < t->key) t = t->left; else if (a > t->key && b > t->key) t = t->right; else break; } return t; }
        int @cover(struct @tree **all, int n, $T low, $T high) { int c = 0; for (int i = 0; i < n; i++) if (all[i] && all[i]->key >= low && all[i]->key <= high) c++; return c; }""",
    "signals": """
        float @filter(const float *x, float *state, int n) { float y = 0; for (int i = 0; i < n; i++) { y = 0.5f * x[i] + 0.$Nf * state[0] - 0.25f * state[1]; state[1] = state[0]; state[0] = y; } return y; }
        double @root(double x) { double r = x > 1 ? x : 1; for (int i = 0; i < $S; i++) r = (r + x / r) / 2; return r; }
        double @sine(double x) { double t = x, s = x; for (int k = 1; k < $S; k++) { t *= -x * x / ((2 * k) * (2 * k + 1)); s += t; } return s; }
        void @butterfly(float *re, float *im, int n, float c, float s) { for (int i = 0; i + n < 2 * n; i++) { float tr = c * re[i + n] - s * im[i + n], ti = s * re[i + n] + c * im[i + n];
            re[i + n] = re[i] - tr; im[i + n] = im[i] - ti; re[i] += tr; im[i] += ti; } }
        void @gain(short *x, int n, int g) { for (int i = 0; i < n; i++) { int v = x[i] * g >> 8; x[i] = v > 32767 ? 32767 : v < -32768 ? -32768 : v; } }
        int @zero(double (*f)(double), double a, double b) { int n = 0; while (b - a > 1e-$N) { double m = (a + b) / 2; if (f(a) * f(m) <= 0) b = m; else a = m; n++; } return n; }""",
    "messages": """
        extern int @send(int, const void *, unsigned); extern void @log(const char *, ...); extern void *@new(unsigned long);
        struct @peer { int socket, state; unsigned long long sent, lost; $T window[$S]; struct @peer *next; };
        int @answer(struct @peer *p, const unsigned char *m, unsigned n) { unsigned char out[64]; if (n < 8) { @log("short message: %u bytes", n); return -1; }
            switch (m[0]) { case 1: p->state = 1; out[0] = 2; out[1] = m[1]; break; case 2: if (p->state != 1) { @log("state %d", p->state); return -2; } p->state = 2; out[0] = 3; break;
            case 3: for (unsigned i = 0; i < $S && i + 8 < n; i++) p->window[i] = m[8 + i]; out[0] = 4; break; case $N + 4: p->lost++; return 0; default: @log("kind %d of %p", m[0], p); return -3; }
            if (@send(p->socket, out, 16) < 0) { p->lost++; return -4; } p->sent++; return 0; }
        struct @peer *@open(struct @peer **all, int socket) { struct @peer *p = @new(sizeof *p); if (!p) return 0; p->socket = socket; p->state = 0; p->sent = p->lost = 0; p->next = *all; *all = p; return p; }
        unsigned @sum(const unsigned short *p, int n) { unsigned s = 0; for (; n > 1; n -= 2) s += *p++; if (n) s += *(const unsigned char *)p; while (s >> 16) s = (s & 0xffff) + (s >> 16); return ~s & 0xffff; }""",
    "grids": """
        int @neighbours(const unsigned char *g, int w, int h, int x, int y) { int n = 0; for (int dy = -1; dy <= 1; dy++) for (int dx = -1; dx <= 1; dx++) if (dx || dy) n += g[(y + dy + h) % h * w + (x + dx + w) % w]; return n; }
        void @step(unsigned char *to, const unsigned char *g, int w, int h) { for (int y = 0; y < h; y++) for (int x = 0; x < w; x++) { int n = @neighbours(g, w, h, x, y); to[y * w + x] = n == 3 || (n == 2 && g[y * w + x]); } }
        int @fill($T *g, int w, int h, int x, int y, $T old, $T new) { if (x < 0 || y < 0 || x >= w || y >= h || g[y * w + x] != old || old == new) return 0; g[y * w + x] = new;
            return 1 + @fill(g, w, h, x + 1, y, old, new) + @fill(g, w, h, x - 1, y, old, new) + @fill(g, w, h, x, y + 1, old, new) + @fill(g, w, h, x, y - 1, old, new); }
        int @distance(const char *a, int n, const char *b, int m, int *row) { for (int j = 0; j <= m; j++) row[j] = j; for (int i = 1; i <= n; i++) { int last = row[0]; row[0] = i;
            for (int j = 1; j <= m; j++) { int keep = row[j], c = last + (a[i - 1] != b[j - 1]); if (row[j] + 1 < c) c = row[j] + 1; if (row[j - 1] + 1 < c) c = row[j - 1] + 1; row[j] = c; last = keep; } } return row[m]; }
        void @blur($T *to, const $T *g, int w, int h) { for (int y = 1; y < h - 1; y++) for (int x = 1; x < w - 1; x++) { $T s = 0; for (int k = -1; k <= 1; k++) s += g[(y + k) * w + x] * $N + g[y * w + x + k]; to[y * w + x] = s / $S; } }""",
}


def program(family, chance, variants=12):
    """A C program of one family."""
    text = []
    for variant in range(variants):
        body = FAMILIES[family].replace("@", f"{family}{variant}_").replace("$T", chance.choice(TYPES))
        body = body.replace("$N", str(chance.randrange(11, 400))).replace("$S", str(chance.choice([4, 5, 8, 12, 16, 20, 32])))
        text.append(body.replace("#define ROT", f"#undef ROT\n#define ROT"))
    return "\n".join("\n".join(line.strip() for line in body.splitlines()) for body in text) + "\n"
