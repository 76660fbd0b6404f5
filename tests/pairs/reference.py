"""Literal twins of the pair algorithms, loops over dense matrices, written from the paper alone."""

from __future__ import annotations

import numpy as np


def ratios(C, left, right, floor):
    """out_i = Σ_j C_ij / p_ij right_j and Σ_j C_ij log p_ij."""
    out, value = np.zeros((len(C), left.shape[1])), np.zeros(len(C))
    for i in range(len(C)):
        for j in range(C.shape[1]):
            if C[i, j]:
                p = max(float(left[i] @ right[j]), floor)
                out[i] += C[i, j] / p * right[j]
                value[i] += C[i, j] * np.log(p)
    return out, value


def levels(C, own, own_var, mean, var, sign, own_ends, ends, n_levels, least, rates):
    """Histogram of cavity means, and the three moments."""
    out, moments = np.zeros((len(C), n_levels)), np.zeros(3)
    low, high = ends
    for i in range(len(C)):
        for j in range(C.shape[1]):
            n = C[i, j]
            if not n:
                continue
            p = max(1 + sign * own[i] * mean[j], least)
            score = sign * (n / p - rates[0][i] * rates[1][j])
            a = min(max(mean[j] - score * var[j] * own[i], low), high)
            b = min(max(own[i] - score * own_var[i] * mean[j], own_ends[0]), own_ends[1])
            place = (a - low) / (high - low) * (n_levels - 1)
            k = min(int(place), n_levels - 2)
            out[i, k] += n * (1 - (place - k))
            out[i, k + 1] += n * (place - k)
            moments += n * np.array([a * b, a, b])
    return out, moments


def _first_phase(B, marginal, level, masses, typical, usable, top, pairs, symmetric, way):
    """Step 3 for B = ρρᵀ + ΔΔᵀ (way 1) or ρρᵀ − ΔΔᵀ (way −1): the separations of rows and of columns."""
    N = B.sum()
    delta = [np.zeros(len(part)) for part in marginal]

    def cut(block, ks):
        """Rows and columns of a block that are too heavy, those of the heaviest levels never."""
        sums = [block.sum(axis=1), block.sum(axis=0)]
        return [(sums[s] > 2 * N * masses[1 - s][ks[1 - s]] * typical[s][ks[s]]) & (ks[s] != top[s]) for s in (0, 1)]

    found = []
    for ks in pairs:
        at = [np.flatnonzero(level[s] == ks[s]) for s in (0, 1)]
        block = B[np.ix_(*at)].astype(float)
        heavy = cut(block, ks)
        if symmetric:
            heavy = [heavy[0] | heavy[1]] * 2
        block[heavy[0], :] = 0
        block[:, heavy[1]] = 0
        scale = [np.sqrt(marginal[s][at[s]]) if ks[s] == top[s] else np.ones(len(at[s])) for s in (0, 1)]
        E = (block / N - np.outer(marginal[0][at[0]], marginal[1][at[1]])) / np.outer(scale[0], scale[1])
        if symmetric:
            values, vectors = np.linalg.eigh(way * (E + E.T) / 2)
            u = np.sqrt(max(values[-1], 0)) * vectors[:, -1]
            u = u * np.sign(u[np.argmax(np.round(np.abs(u), 12))])
            found.append((at, [scale[0] * u, scale[1] * u]))
        else:
            u, s, vt = np.linalg.svd(E)
            turn = np.sign(u[np.argmax(np.round(np.abs(np.sqrt(s[0]) * u[:, 0]), 12)), 0])
            u, vt = u * turn, vt * turn
            found.append((at, [scale[0] * np.sqrt(s[0]) * u[:, 0], scale[1] * np.sqrt(s[0]) * vt[0]]))
    if not found:
        return delta
    best = max(range(len(found)), key=lambda f: np.linalg.norm(found[f][1][0]))  # step 3(d), Claim 3.8
    star = found[best][0][0][found[best][1][0] > 0]
    S = B + B.T if symmetric else B
    for f, (at, vectors) in enumerate(found):
        plus, minus = at[1][vectors[1] > 0], at[1][vectors[1] <= 0]
        share = [S[np.ix_(star, part)].sum() / max(S[:, part].sum(), 1e-300) for part in (plus, minus)]
        sign = 1 if f == best or way * share[0] > way * share[1] else -1
        for side in (0, 1):
            delta[side][at[side]] = sign * vectors[side]
    longest = [max((ks[s] for ks in pairs), key=lambda k: np.linalg.norm(delta[s][level[s] == k])) for s in (0, 1)]
    for s in (0, 1):  # levels without a partner
        for k in range(len(masses[s])):
            if not usable[s][k] or k in [ks[s] for ks in pairs]:
                continue
            ks = (k, longest[1]) if s == 0 else (longest[0], k)
            at = [np.flatnonzero(level[side] == ks[side]) for side in (0, 1)]
            block = B[np.ix_(*at)].astype(float)
            E = block / N - np.outer(marginal[0][at[0]], marginal[1][at[1]])
            E = E.T if s else E
            known, weight = delta[1 - s][at[1 - s]], 1 / marginal[1 - s][at[1 - s]]
            slope = E @ (weight * known) / (known @ (weight * known))
            delta[s][at[s]] = np.where(cut(block, ks)[s], 0.0, slope)
    return delta


def phases(B, *, symmetric, epsilon, width, tau, rounds, most_condition):
    """Algorithms 1 and 2 on all counts (no split), the mended reading of docs/guide/pairs.md.

    The marginals, separations (rows, columns) and the condition of the anchor matrix.
    """
    N = B.sum()
    marginal = [B.sum(axis=1) / N, B.sum(axis=0) / N]  # step 1
    if symmetric:
        marginal = [(marginal[0] + marginal[1]) / 2] * 2
    ends = []
    for rho in marginal:  # step 2
        edges = [epsilon]
        while edges[-1] * width < np.log(len(rho)):
            edges.append(edges[-1] * width)
        ends.append([*edges, np.log(len(rho))])
    level = [
        [sum(r * len(rho) * (1 + 1e-12) >= edge for edge in edges) for r in rho]
        for rho, edges in zip(marginal, ends, strict=True)
    ]
    level = [np.array(part) for part in level]
    n_levels = [len(part) + 1 for part in ends]
    masses = [[marginal[side][level[side] == k].sum() for k in range(n_levels[side])] for side in (0, 1)]
    typical = [
        [*(end * width**tau / len(marginal[side]) for end in ends[side]), marginal[side].max()] for side in (0, 1)
    ]
    most = [[N * m * t for m, t in zip(masses[side], typical[side], strict=True)] for side in (0, 1)]  # (14)
    usable = [
        [
            k > 0 and masses[side][k] >= (epsilon * min(1.0, 1 / ends[side][k]) if k < len(ends[side]) else epsilon)
            for k in range(n_levels[side])
        ]
        for side in (0, 1)
    ]
    top = [n - 1 for n in n_levels]
    pairs = [(k, k) for k in range(1, min(top))] + [tuple(top)]
    pairs = [pair for pair in pairs if usable[0][pair[0]] and usable[1][pair[1]]]
    if not pairs and any(usable[0]) and any(usable[1]):
        pairs = [tuple(max(range(n_levels[s]), key=lambda k: masses[s][k] if usable[s][k] else 0.0) for s in (0, 1))]
    answers = []
    for way in (1, -1) if symmetric else (1,):
        answers.append(_first_phase(B, marginal, level, masses, typical, usable, top, pairs, symmetric, way))
    sign = 1
    if symmetric:
        lengths = [
            max((np.linalg.norm(found[0][level[0] == k]) for k in range(n_levels[0])), default=0.0) for found in answers
        ]
        sign = -1 if lengths[1] > lengths[0] else 1
    delta = answers[0] if sign == 1 else answers[1]
    condition = np.inf
    for turn in range(rounds):  # Algorithm 2
        chosen = []
        for side in (0, 1):
            part = np.zeros(len(delta[side]), bool)
            for k in range(1 if not turn else 0, n_levels[side]):
                here = level[side] == k
                if turn or np.linalg.norm(delta[side][here]) > np.sqrt(np.sqrt(most[side][k]) / N):
                    part |= here & (delta[side] > 0)
            chosen.append(part)
        P = (B + B.T) / 2 / N if symmetric else B / N
        groups = [[part, ~part] for part in chosen]
        BA = np.array([[P[np.ix_(r, c)].sum() for c in groups[1]] for r in groups[0]])
        b = [BA.sum(axis=1), BA.sum(axis=0)]
        covariance = sign * (BA[0, 0] - b[0][0] * b[1][0])
        condition = np.inf
        if covariance > 0:
            a = np.sqrt(covariance) * np.array([1, -1])
            systems = [np.column_stack([part, sign * a]) for part in b]  # [b, a]
            condition = max(np.linalg.cond(system) for system in systems)
        if not condition < most_condition:
            break
        to_columns = np.linalg.inv(systems[0]) @ np.array([P[r].sum(axis=0) for r in groups[0]])
        to_rows = np.linalg.inv(systems[1]) @ np.array([P[:, c].sum(axis=1) for c in groups[1]])
        marginal, delta = [to_rows[0], to_columns[0]], [to_rows[1], to_columns[1]]
    return marginal, delta, condition
