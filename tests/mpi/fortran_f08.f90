! The operations from Fortran, by "use mpi_f08": handles of types, no ierror, and array slices.
program fortran_f08
    use, intrinsic :: iso_c_binding, only: c_ptr, c_f_pointer
    use mpi_f08
    implicit none
    include 'fortran_main.inc'

    ! Everything of equal parts: n elements of each rank, or for each.
    subroutine plain(n)
        integer, intent(in) :: n
        integer :: one(n), sent(n * processes), received(n * processes), root

        root = processes / 2
        received = merge(input(root, 0, size(received)), -1, rank == root)
        call called(bcast)
        call MPI_Bcast(received, size(received), MPI_INTEGER, root, MPI_COMM_WORLD)
        call expect(received, input(root, 0, size(received)))

        one = input(rank, 0, n)
        received = -1
        call called(allgather)
        call MPI_Allgather(one, n, MPI_INTEGER, received, n, MPI_INTEGER, MPI_COMM_WORLD)
        call expect(received, gathered(0, n))

        received = -1
        call called(gather)
        call MPI_Gather(one, n, MPI_INTEGER, received, n, MPI_INTEGER, root, MPI_COMM_WORLD)
        if (rank == root) call expect(received, gathered(0, n))

        sent = input(rank, 0, size(sent))
        one = -1
        call called(scatter)
        call MPI_Scatter(sent, n, MPI_INTEGER, one, n, MPI_INTEGER, root, MPI_COMM_WORLD)
        call expect(one, input(root, rank * n, n))

        received = -1
        call called(alltoall)
        call MPI_Alltoall(sent, n, MPI_INTEGER, received, n, MPI_INTEGER, MPI_COMM_WORLD)
        call expect(received, gathered(rank * n, n))

        received = -1
        call called(reduce)
        call MPI_Reduce(sent, received, size(sent), MPI_INTEGER, MPI_SUM, root, MPI_COMM_WORLD)
        if (rank == root) call expect(received, sums(0, size(sent)))

        received = -1
        call called(allreduce)
        call MPI_Allreduce(sent, received, size(sent), MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
        call expect(received, sums(0, size(sent)))

        one = -1
        call called(reduce_scatter_block)
        call MPI_Reduce_scatter_block(sent, one, n, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
        call expect(one, sums(rank * n, n))
    end subroutine

    ! The same, each in place that can be.
    subroutine in_place(n)
        integer, intent(in) :: n
        integer :: one(n), whole(n * processes), root, first

        root = processes - 1
        first = rank * n
        one = input(rank, 0, n)
        whole = -1
        whole(first + 1:first + n) = one
        call called(allgather)
        call MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, whole, n, MPI_INTEGER, &
            MPI_COMM_WORLD)
        call expect(whole, gathered(0, n))

        whole = -1
        call called(gather)
        if (rank == root) then
            whole(first + 1:first + n) = one
            call MPI_Gather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, whole, n, MPI_INTEGER, root, &
                MPI_COMM_WORLD)
            call expect(whole, gathered(0, n))
        else
            call MPI_Gather(one, n, MPI_INTEGER, whole, 0, MPI_DATATYPE_NULL, root, MPI_COMM_WORLD)
        end if

        whole = input(rank, 0, size(whole))
        call called(scatter)
        if (rank == root) then
            call MPI_Scatter(whole, n, MPI_INTEGER, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, root, &
                MPI_COMM_WORLD)
            call expect(whole, input(root, 0, size(whole)))
        else
            one = -1
            call MPI_Scatter(whole, 0, MPI_DATATYPE_NULL, one, n, MPI_INTEGER, root, MPI_COMM_WORLD)
            call expect(one, input(root, first, n))
        end if

        whole = input(rank, 0, size(whole))
        call called(alltoall)
        call MPI_Alltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, whole, n, MPI_INTEGER, MPI_COMM_WORLD)
        call expect(whole, gathered(first, n))

        whole = input(rank, 0, size(whole))
        call called(reduce)
        if (rank == root) then
            call MPI_Reduce(MPI_IN_PLACE, whole, size(whole), MPI_INTEGER, MPI_SUM, root, &
                MPI_COMM_WORLD)
            call expect(whole, sums(0, size(whole)))
        else
            call MPI_Reduce(whole, one, size(whole), MPI_INTEGER, MPI_SUM, root, MPI_COMM_WORLD)
        end if

        whole = input(rank, 0, size(whole))
        call called(allreduce)
        call MPI_Allreduce(MPI_IN_PLACE, whole, size(whole), MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
        call expect(whole, sums(0, size(whole)))

        whole = input(rank, 0, size(whole))
        call called(reduce_scatter_block)
        call MPI_Reduce_scatter_block(MPI_IN_PLACE, whole, n, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
        call expect(whole(:n), sums(first, n))
    end subroutine

    ! What takes a count for each rank: n elements of the first, and one more of each that follows.
    ! Where there are displacements, the last rank's part comes first, and there are gaps.
    subroutine irregular(n)
        integer, intent(in) :: n
        integer :: counts(0:processes - 1), at(0:processes - 1), one(n + processes)
        integer :: sent((n + processes) * processes)
        integer, dimension((n + processes + 2) * processes) :: received, wanted
        integer :: total, first, own, r

        counts = [(n + r, r = 0, processes - 1)]
        at = [((n + processes + 2) * (processes - 1 - r) + 1, r = 0, processes - 1)]
        ! Natively, MPICH 4.0 overlooks the displacement of a single process.
        if (processes == 1) at = 0
        total = sum(counts)
        first = sum(counts(:rank - 1))
        own = counts(rank)

        wanted = -1
        do r = 0, processes - 1
            wanted(at(r) + 1:at(r) + counts(r)) = input(r, 0, counts(r))
        end do
        one = input(rank, 0, size(one))
        received = -1
        call called(allgatherv)
        call MPI_Allgatherv(one, own, MPI_INTEGER, received, counts, at, MPI_INTEGER, &
            MPI_COMM_WORLD)
        call expect(received, wanted)

        received = -1
        received(at(rank) + 1:at(rank) + own) = one(:own)
        call called(allgatherv)
        call MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, received, counts, at, MPI_INTEGER, &
            MPI_COMM_WORLD)
        call expect(received, wanted)

        sent(:total) = input(rank, 0, total)
        one = -1
        call called(reduce_scatter)
        call MPI_Reduce_scatter(sent, one, counts, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
        call expect(one(:own), sums(first, own))

        call called(reduce_scatter)
        call MPI_Reduce_scatter(MPI_IN_PLACE, sent, counts, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
        call expect(sent(:own), sums(first, own))
    end subroutine

    ! Array slices: MPICH makes datatypes of them, for Open MPI 4.1 the compiler copies them.
    subroutine strided(n)
        integer, intent(in) :: n
        integer :: a(2 * n), b(5, n), received(n * processes), root

        root = processes / 2
        a = -1
        if (rank == root) a(::2) = input(root, 0, n)
        call called(bcast)
        call MPI_Bcast(a(::2), n, MPI_INTEGER, root, MPI_COMM_WORLD)
        call expect(a(::2), input(root, 0, n))
        call wrong(count(a(2::2) /= -1))

        b = -1
        if (rank == root) b(3, :) = input(root, n, n)
        call called(bcast)
        call MPI_Bcast(b(3, :), n, MPI_INTEGER, root, MPI_COMM_WORLD)
        call expect(b(3, :), input(root, n, n))
        call wrong(count(b(:2, :) /= -1) + count(b(4:, :) /= -1))

        b(3, :) = input(rank, 0, n)
        received = -1
        call called(gather)
        call MPI_Gather(b(3, :), n, MPI_INTEGER, received, n, MPI_INTEGER, root, MPI_COMM_WORLD)
        if (rank == root) call expect(received, gathered(0, n))

        ! In an allreduce, MPICH takes the slice that is sent for contiguous, and makes one element
        ! of a derived datatype of the one received, which MPI_SUM does not add: so it gets copies.
        call called(allreduce)
        if (MPI_SUBARRAYS_SUPPORTED) then
            call MPI_Allreduce((b(3, :)), received, n, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
            b(4, :) = received(:n)
        else
            call MPI_Allreduce(b(3, :), b(4, :), n, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
        end if
        call expect(b(3, :), input(rank, 0, n))
        call expect(b(4, :), sums(0, n))
        call wrong(count(b(:2, :) /= -1) + count(b(5, :) /= -1))
    end subroutine

    ! An array in two pieces, the second first, where a datatype says that it is.
    subroutine absolute()
        integer, parameter :: cut = each / 3
        integer :: pieces(each), received(each * processes), root, r
        type(MPI_Datatype) :: datatype
        integer(kind=MPI_ADDRESS_KIND) :: at(2)
        ! A compiler might keep what is local from a call that names only MPI_BOTTOM.
        common /absolute_data/ pieces

        root = processes / 2
        call MPI_Get_address(pieces(cut + 1), at(1))
        call MPI_Get_address(pieces(1), at(2))
        call MPI_Type_create_hindexed(2, [each - cut, cut], at, MPI_INTEGER, datatype)
        call MPI_Type_commit(datatype)

        pieces = merge(input(root, 0, each), -1, rank == root)
        call called(bcast)
        call MPI_Bcast(MPI_BOTTOM, 1, datatype, root, MPI_COMM_WORLD)
        call expect(pieces, input(root, 0, each))

        pieces = input(rank, 0, each)
        received = -1
        call called(gather)
        call MPI_Gather(MPI_BOTTOM, 1, datatype, received, each, MPI_INTEGER, root, MPI_COMM_WORLD)
        if (rank == root) then
            do r = 0, processes - 1
                call expect(received(r * each + 1:(r + 1) * each), cshift(input(r, 0, each), cut))
            end do
        end if
        call MPI_Type_free(datatype)
    end subroutine

    ! Of fractions that are added exactly.
    subroutine floating_point()
        double precision :: sent(each), received(each)
        complex(kind(0d0)) :: complex_sent(each), complex_received(each), wanted(each)
        integer :: root

        root = processes - 1
        sent = 0.25d0 * input(rank, 0, each)
        received = -1
        call called(allreduce)
        call MPI_Allreduce(sent, received, each, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD)
        call wrong(count(received /= 0.25d0 * sums(0, each)))

        complex_sent = cmplx(sent, -0.5d0 * input(rank, each, each), kind(0d0))
        complex_received = -1
        call called(reduce)
        call MPI_Reduce(complex_sent, complex_received, each, MPI_DOUBLE_COMPLEX, MPI_SUM, root, &
            MPI_COMM_WORLD)
        wanted = cmplx(received, -0.5d0 * sums(each, each), kind(0d0))
        if (rank == root) call wrong(count(complex_received /= wanted))
    end subroutine

    subroutine pairs()
        integer :: sent(2, each), received(2, each), wanted(2, each), root

        root = processes / 2
        call make_pairs(sent, wanted)
        received = -1
        call called(reduce)
        call MPI_Reduce(sent, received, each, MPI_2INTEGER, MPI_MAXLOC, root, MPI_COMM_WORLD)
        if (rank == root) call wrong(count(received /= wanted))
    end subroutine

    ! No operator of MPI's: the result tells how often it was applied.
    subroutine add_and_count(from, into, length, datatype)
        type(c_ptr), value :: from, into
        integer :: length
        type(MPI_Datatype) :: datatype
        integer, pointer :: a(:), b(:)

        call c_f_pointer(from, a, [length])
        call c_f_pointer(into, b, [length])
        b = a + b + 1
    end subroutine

    subroutine own_operator()
        integer :: sent(each), received(each), root
        type(MPI_Op) :: op

        root = processes / 2
        call MPI_Op_create(add_and_count, .true., op)
        sent = input(rank, 0, each)
        received = -1
        call called(reduce)
        call MPI_Reduce(sent, received, each, MPI_INTEGER, op, root, MPI_COMM_WORLD)
        if (rank == root) call expect(received, sums(0, each) + processes - 1)
        call MPI_Op_free(op)
    end subroutine
end program
