"""Consensus ADMM over vectors: nodes with objectives of their own agree on one vector.

    admm = Admm(Coupling(rho=0.03), solver, InProcess(nodes=4), start)
    admm.run(rounds=20, on_round=print)

Nothing here knows what the vectors are. Boyd et al., "Distributed Optimization and Statistical
Learning via the Alternating Direction Method of Multipliers" (2011), sections 3.1 and 7.1.
"""
