!> Fortran 2003 interface to the C client; flowsim_client.h describes the functions. The last axis of arrays is the
!> environment: observations(observation_size, environments), actions(action_size, environments). Environments are
!> counted from 1 here.
module flowsim_client
  use, intrinsic :: iso_c_binding
  implicit none
  private

  public :: flowsim_open, flowsim_seed, flowsim_reset, flowsim_step, flowsim_explain, flowsim_error, flowsim_close

  !> Return values of the functions.
  integer, parameter, public :: FLOWSIM_OK = 0, FLOWSIM_OVER = 1, FLOWSIM_BROKEN = -1

  !> Status of an environment after a step.
  integer(c_int), parameter, public :: FLOWSIM_GOES_ON = 0, FLOWSIM_TERMINATED = 1, FLOWSIM_TRUNCATED = 2, &
                                       FLOWSIM_DIVERGED = 4, FLOWSIM_FAILED = 8

  !> A worker; pass it around, and close it at the end.
  type, public :: flowsim_worker
    private
    type(c_ptr) :: client = c_null_ptr
  end type flowsim_worker

  interface
    integer(c_int) function c_open(client, connection_file, slot, environments, observation_size, action_size, &
                                   low, high, outbox) bind(c, name='flowsim_open')
      import :: c_int, c_ptr, c_char, c_double
      type(c_ptr), intent(out) :: client
      character(kind=c_char), intent(in) :: connection_file(*)
      integer(c_int), value :: slot, environments, observation_size, action_size
      real(c_double), intent(in) :: low(*), high(*)
      type(c_ptr), value :: outbox
    end function c_open

    integer(c_int64_t) function c_seed(client, environment) bind(c, name='flowsim_seed')
      import :: c_int, c_int64_t, c_ptr
      type(c_ptr), value :: client
      integer(c_int), value :: environment
    end function c_seed

    integer(c_int) function c_reset(client, observations, actions) bind(c, name='flowsim_reset')
      import :: c_int, c_ptr, c_float
      type(c_ptr), value :: client
      real(c_float), intent(in) :: observations(*)
      real(c_float), intent(out) :: actions(*)
    end function c_reset

    integer(c_int) function c_step(client, rewards, observations, final_observations, status, actions) &
        bind(c, name='flowsim_step')
      import :: c_int, c_ptr, c_float, c_double
      type(c_ptr), value :: client
      real(c_double), intent(in) :: rewards(*)
      real(c_float), intent(in) :: observations(*), final_observations(*)
      integer(c_int), intent(in) :: status(*)
      real(c_float), intent(out) :: actions(*)
    end function c_step

    subroutine c_explain(client, reason) bind(c, name='flowsim_explain')
      import :: c_ptr, c_char
      type(c_ptr), value :: client
      character(kind=c_char), intent(in) :: reason(*)
    end subroutine c_explain

    type(c_ptr) function c_error(client) bind(c, name='flowsim_error')
      import :: c_ptr
      type(c_ptr), value :: client
    end function c_error

    subroutine c_close(client, reason) bind(c, name='flowsim_close')
      import :: c_ptr
      type(c_ptr), value :: client, reason
    end subroutine c_close

    integer(c_size_t) function c_strlen(text) bind(c, name='strlen')
      import :: c_ptr, c_size_t
      type(c_ptr), value :: text
    end function c_strlen
  end interface

contains

  !> Connect to the learner and join its run; low and high have the size of an action.
  integer function flowsim_open(worker, connection_file, slot, environments, observation_size, low, high, outbox) &
      result(code)
    type(flowsim_worker), intent(out) :: worker
    character(len=*), intent(in) :: connection_file
    integer, intent(in) :: slot, environments, observation_size
    real(c_double), intent(in) :: low(:), high(:)
    character(len=*), intent(in), optional :: outbox
    character(kind=c_char), allocatable, target :: path(:)
    type(c_ptr) :: place

    place = c_null_ptr
    if (present(outbox)) then
      path = c_text(outbox)
      place = c_loc(path)
    end if
    code = c_open(worker%client, c_text(connection_file), int(slot, c_int), int(environments, c_int), &
                  int(observation_size, c_int), int(min(size(low), size(high)), c_int), low, high, place)
  end function flowsim_open

  !> Return the seed of the first episode of an environment, counted from 1.
  integer(c_int64_t) function flowsim_seed(worker, environment)
    type(flowsim_worker), intent(in) :: worker
    integer, intent(in) :: environment

    flowsim_seed = c_seed(worker%client, int(environment - 1, c_int))
  end function flowsim_seed

  !> Send the first observations, get the first actions.
  integer function flowsim_reset(worker, observations, actions) result(code)
    type(flowsim_worker), intent(in) :: worker
    real(c_float), intent(in) :: observations(:, :)
    real(c_float), intent(out) :: actions(:, :)

    code = c_reset(worker%client, observations, actions)
  end function flowsim_reset

  !> Send the results of one step of all environments, get the next actions.
  integer function flowsim_step(worker, rewards, observations, final_observations, status, actions) result(code)
    type(flowsim_worker), intent(in) :: worker
    real(c_double), intent(in) :: rewards(:)
    real(c_float), intent(in) :: observations(:, :), final_observations(:, :)
    integer(c_int), intent(in) :: status(:)
    real(c_float), intent(out) :: actions(:, :)

    code = c_step(worker%client, rewards, observations, final_observations, status, actions)
  end function flowsim_step

  !> Explain why environments failed; call it before the step that reports them.
  subroutine flowsim_explain(worker, reason)
    type(flowsim_worker), intent(in) :: worker
    character(len=*), intent(in) :: reason

    call c_explain(worker%client, c_text(reason))
  end subroutine flowsim_explain

  !> Return the message of the last FLOWSIM_BROKEN or FLOWSIM_OVER.
  function flowsim_error(worker) result(sentence)
    type(flowsim_worker), intent(in) :: worker
    character(len=:), allocatable :: sentence
    character(kind=c_char), pointer :: text(:)
    type(c_ptr) :: place
    integer :: i

    place = c_error(worker%client)
    call c_f_pointer(place, text, [c_strlen(place)])
    allocate (character(len=size(text)) :: sentence)
    do i = 1, size(text)
      sentence(i:i) = text(i)
    end do
  end function flowsim_error

  !> Leave the run; with a reason, tell the learner that this worker cannot continue, and why.
  subroutine flowsim_close(worker, reason)
    type(flowsim_worker), intent(inout) :: worker
    character(len=*), intent(in), optional :: reason
    character(kind=c_char), allocatable, target :: text(:)

    if (present(reason)) then
      text = c_text(reason)
      call c_close(worker%client, c_loc(text))
    else
      call c_close(worker%client, c_null_ptr)
    end if
    worker%client = c_null_ptr
  end subroutine flowsim_close

  !> Return a text as a C string.
  function c_text(text) result(characters)
    character(len=*), intent(in) :: text
    character(kind=c_char) :: characters(len_trim(text) + 1)
    integer :: i

    do i = 1, len_trim(text)
      characters(i) = text(i:i)
    end do
    characters(len_trim(text) + 1) = c_null_char
  end function c_text

end module flowsim_client
